#include "server/http/framing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace reprofuse::server {
namespace {

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

HttpResponse bad_framing(const std::string& message) {
  return http_error(400, message, "bad_framing");
}

// "application/json; charset=utf-8" is JSON; what a form on another site can send without asking is not.
bool is_json(const std::string& content_type) {
  const std::string type = in_small_letters(content_type.substr(0, content_type.find(';')));
  return httplib::detail::trim_copy(type) == "application/json";
}

}  // namespace

bool comes_in_chunks(const httplib::Request& request) {
  return request.has_header("Transfer-Encoding");
}

bool announces_body(const httplib::Request& request) {
  if (comes_in_chunks(request)) return true;
  return request.has_header("Content-Length") ? request.get_header_value("Content-Length") != "0"
                                              : request.method == "POST";  // up to the end, as clients of old had it
}

std::optional<HttpResponse> refuse_framing(const httplib::Request& request) {
  const std::size_t lengths = request.get_header_value_count("Content-Length");
  const std::size_t encodings = request.get_header_value_count("Transfer-Encoding");
  if (lengths + encodings > 1)
    return bad_framing("a request has one Content-Length or one Transfer-Encoding, not several of them");
  if (encodings == 1 && in_small_letters(request.get_header_value("Transfer-Encoding")) != "chunked")
    return http_error(501, "Transfer-Encoding must be chunked", "bad_framing");
  if (lengths == 1 && !whole_number(request.get_header_value("Content-Length")))
    return bad_framing("Content-Length must be a whole number");
  const std::size_t hosts = request.get_header_value_count("Host");
  if (hosts > 1) return bad_framing("a request has one Host, not several of them");
  if (hosts == 0 && request.version == "HTTP/1.1")
    return bad_framing("a request of HTTP/1.1 has a Host, and this none");
  return std::nullopt;
}

std::optional<HttpResponse> refuse_body(const httplib::Request& request, std::size_t max_body_bytes) {
  const auto length = whole_number(request.get_header_value("Content-Length"));
  if (length && *length > max_body_bytes)
    return http_error(413, fmt::format("the body has {} bytes, and at most {} are read", *length, max_body_bytes),
                      "body_too_large");
  if (request.method != "POST") return std::nullopt;
  if (!length && !comes_in_chunks(request))
    return http_error(411, "a POST must tell its Content-Length", "length_required");
  if (!request.get_header_value("Content-Encoding").empty())
    return http_error(415, "a body must not be compressed: leave out Content-Encoding", "unsupported_media_type");
  if (!is_json(request.get_header_value("Content-Type")))
    return http_error(
        415,
        fmt::format("Content-Type is {}, not 'application/json' (curl: -H 'Content-Type: application/json')",
                    shown(request.get_header_value("Content-Type"))),
        "unsupported_media_type");
  return std::nullopt;
}

}  // namespace reprofuse::server
