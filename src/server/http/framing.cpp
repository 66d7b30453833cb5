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

bool is_token_letter(char byte) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const bool is_ascii = static_cast<unsigned char>(byte) < 0x80;
  return is_ascii && (std::isalnum(static_cast<unsigned char>(byte)) != 0 || kMarks.find(byte) != std::string::npos);
}

bool equal_but_for_case(std::string_view name, std::string_view small) {
  return std::equal(name.begin(), name.end(), small.begin(), small.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

}  // namespace

bool HeaderGrammar::accepts(std::string_view bytes) {
  for (const char byte : bytes) {
    if (has_ended_) return true;
    const bool follows_return = !line_.empty() && line_.back() == '\r';
    if (byte == '\0' || follows_return != (byte == '\n'))
      return false;  // a line ends with CRLF, and has neither inside
    if (byte != '\n') {
      line_ += byte;
      continue;
    }
    line_.pop_back();
    if (!is_first_ && !accepts_line()) return false;
    has_ended_ = !is_first_ && line_.empty();
    is_first_ = false;
    line_.clear();
  }
  return true;
}

bool HeaderGrammar::accepts_line() const {
  if (line_.empty()) return true;
  const std::string_view name = std::string_view(line_).substr(0, line_.find(':'));
  if (name.empty() || name.size() == line_.size() || !std::all_of(name.begin(), name.end(), is_token_letter))
    return false;
  // httplib reads "%63hunked" as "chunked", and no other server does.
  const bool tells_length = equal_but_for_case(name, "content-length") || equal_but_for_case(name, "transfer-encoding");
  return !tells_length || line_.find('%') == std::string::npos;
}

bool ChunkGrammar::accepts(std::string_view bytes) {
  while (!bytes.empty()) {
    if (at_ == At::kData) {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), size_ - read_));
      read_ += taken;
      bytes.remove_prefix(taken);
      if (read_ == size_) at_ = At::kDataEnd;
      continue;
    }
    if (!accepts_byte(bytes.front())) return false;
    bytes.remove_prefix(1);
  }
  return true;
}

bool ChunkGrammar::accepts_byte(char byte) {
  switch (at_) {
    case At::kSize: size_ = read_ = 0; return accepts_digit(byte);
    case At::kDigits:
      if (byte == ';') return moves_if(true, At::kExtension);
      return byte == '\r' ? moves_if(true, At::kSizeEnd) : accepts_digit(byte);
    case At::kExtension: return byte == '\r' ? moves_if(true, At::kSizeEnd) : byte != '\n' && byte != '\0';
    case At::kSizeEnd: return moves_if(byte == '\n', size_ == 0 ? At::kLastEnd : At::kData);
    case At::kDataEnd: return moves_if(byte == '\r', At::kDataLineEnd);
    case At::kDataLineEnd: return moves_if(byte == '\n', At::kSize);
    case At::kLastEnd: return moves_if(byte == '\r', At::kLastLineEnd);
    case At::kLastLineEnd: return moves_if(byte == '\n', At::kEnd);
    case At::kData:
    case At::kEnd: break;
  }
  return true;
}

bool ChunkGrammar::moves_if(bool is_right, At next) {
  if (is_right) at_ = next;
  return is_right;
}

bool ChunkGrammar::accepts_digit(char byte) {
  const int digit = hex_digit(byte);
  if (digit < 0) return false;
  if (!is_too_large()) size_ = size_ * 16 + static_cast<std::uint64_t>(digit);
  at_ = At::kDigits;
  return true;
}

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
