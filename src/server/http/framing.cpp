#include "server/http/framing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/verb.hpp>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.hpp"

namespace reprofuse::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;

constexpr std::size_t kMaxFirstLine = 8192;

// A second one could be the one that somebody else goes by.
constexpr http::field kAtMostOnce[] = {
    http::field::content_length, http::field::transfer_encoding, http::field::host,   http::field::authorization,
    http::field::content_type,   http::field::content_encoding,  http::field::expect, http::field::origin};

HttpResponse bad_framing(const std::string& message) {
  return http_error(400, message, "bad_framing");
}

std::string value_of(const RequestHeader& header, http::field name) {
  const auto value = header[name];
  return {value.data(), value.size()};
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "application/json; charset=utf-8" is JSON; what a form on another site can send without asking is not.
bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return iequals({type.data(), type.size()}, "application/json");
}

int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

}  // namespace

std::optional<std::size_t> HeaderScan::take(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char byte = bytes[i];
    const bool is_control = static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f;
    if (is_control && byte != '\t' && byte != '\r' && byte != '\n') return std::nullopt;
    if ((last_ == '\r') != (byte == '\n')) return std::nullopt;
    if (last_ == '\n' && (byte == ' ' || byte == '\t')) return std::nullopt;
    last_ = byte;
    ++in_line_;
    if (byte != '\n') continue;
    is_complete_ = in_line_ == 2;
    if (is_complete_) return i + 1;
    ++lines_;
    in_line_ = 0;
  }
  return bytes.size();
}

std::optional<HttpResponse> refuse_framing(const RequestHeader& header) {
  for (const http::field name : kAtMostOnce)
    if (header.count(name) > 1) {
      const auto text = http::to_string(name);
      return bad_framing(fmt::format("a request has one {}, not several of them", std::string(text)));
    }
  if (header.target().size() > kMaxFirstLine)
    return http_error(414, "the address in the request is too long", "uri_too_long");
  const bool has_encoding = header.count(http::field::transfer_encoding) > 0;
  if (has_encoding && header.count(http::field::content_length) > 0)
    return bad_framing("a request has a Content-Length or a Transfer-Encoding, not both");
  if (has_encoding && !iequals(header[http::field::transfer_encoding], "chunked"))
    return http_error(501, "Transfer-Encoding must be chunked", "bad_framing");
  if (has_encoding && header.version() < 11) return bad_framing("HTTP/1.0 has no Transfer-Encoding");
  if (header.count(http::field::content_length) > 0 && !whole_number(value_of(header, http::field::content_length)))
    return bad_framing("Content-Length must be a whole number");
  if (header.count(http::field::host) == 0 && header.version() >= 11)
    return bad_framing("a request of HTTP/1.1 has a Host, and this none");
  if (value_of(header, http::field::host).find_first_of(" \t,/@\\") != std::string::npos)
    return bad_framing("the Host is not a name and a port");
  return std::nullopt;
}

std::optional<HttpResponse> refuse_body(const RequestHeader& header, std::size_t max_body_bytes) {
  const auto length = whole_number(value_of(header, http::field::content_length));
  if (length && *length > max_body_bytes)
    return http_error(413, fmt::format("the body has {} bytes, and at most {} are read", *length, max_body_bytes),
                      "body_too_large");
  if (header.method() != http::verb::post) return std::nullopt;
  if (!length && !has_chunks(header)) return http_error(411, "a POST must tell its Content-Length", "length_required");
  if (!value_of(header, http::field::content_encoding).empty())
    return http_error(415, "a body must not be compressed: leave out Content-Encoding", "unsupported_media_type");
  if (const std::string type = value_of(header, http::field::content_type); !is_json(type))
    return http_error(
        415,
        fmt::format("Content-Type is {}, not 'application/json' (curl: -H 'Content-Type: application/json')",
                    shown(type)),
        "unsupported_media_type");
  return std::nullopt;
}

bool has_chunks(const RequestHeader& header) {
  return header.count(http::field::transfer_encoding) > 0;
}

bool announces_body(const RequestHeader& header) {
  if (has_chunks(header)) return true;
  return header.count(http::field::content_length) > 0 ? header[http::field::content_length] != "0"
                                                       : header.method() == http::verb::post;
}

bool expects_continue(const RequestHeader& header) {
  return header.version() >= 11 && iequals(header[http::field::expect], "100-continue");
}

bool read_target(std::string_view target, std::string& path, std::optional<std::string>& host) {
  constexpr std::string_view kScheme = "http://";
  if (iequals({target.data(), std::min(target.size(), kScheme.size())}, "http://")) {
    target.remove_prefix(kScheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0 || target.substr(0, end).find('@') != std::string_view::npos) return false;
    host = std::string(target.substr(0, end));
    target.remove_prefix(end);
  } else if (target != "*" && !target.starts_with('/')) {
    return false;
  }
  target = target.substr(0, target.find_first_of("?#"));
  path = target.empty() ? "/" : "";
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool is_escape =
        target[i] == '%' && i + 2 < target.size() && hex_digit(target[i + 1]) >= 0 && hex_digit(target[i + 2]) >= 0;
    path += is_escape ? static_cast<char>(hex_digit(target[i + 1]) * 16 + hex_digit(target[i + 2])) : target[i];
    if (is_escape) i += 2;
  }
  return true;
}

}  // namespace reprofuse::server
