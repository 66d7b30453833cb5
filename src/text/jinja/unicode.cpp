#include "text/jinja/unicode.hpp"

#include <cstring>
#include <set>

#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text::jinja {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

template <typename IsStripped>
std::string_view strip_where(std::string_view text, StripEnds ends, const IsStripped& is_stripped) {
  if (ends != StripEnds::kRight) {
    while (!text.empty()) {
      const std::size_t length = code_point_length(text.front());
      if (!is_stripped(text.substr(0, length))) break;
      text.remove_prefix(length);
    }
  }
  if (ends != StripEnds::kLeft) {
    while (!text.empty()) {
      const std::string_view last = last_code_point(text);
      if (!is_stripped(last)) break;
      text.remove_suffix(last.size());
    }
  }
  return text;
}

}  // namespace

std::size_t code_point_length(char first_byte) {
  const auto byte = static_cast<unsigned char>(first_byte);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

char32_t code_point_at(std::string_view text, std::size_t at) {
  return next_code_point(text, at);
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
  return count;
}

std::string_view last_code_point(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return text.substr(at);
}

bool is_space(char32_t code_point) {
  return is_white_space(code_point) || (code_point >= 0x1C && code_point <= 0x1F);
}

std::string_view strip_space(std::string_view text, StripEnds ends) {
  return strip_where(text, ends, [](std::string_view character) { return is_space(code_point_at(character, 0)); });
}

std::string_view strip(std::string_view text, std::string_view characters, StripEnds ends) {
  std::set<char32_t> stripped;
  for (std::size_t at = 0; at < characters.size(); at += code_point_length(characters[at])) {
    stripped.insert(code_point_at(characters, at));
  }
  return strip_where(text, ends,
                     [&](std::string_view character) { return stripped.count(code_point_at(character, 0)) != 0; });
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  // string_view::find takes time in proportion to the product of the lengths; memmem does not.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace reprofuse::text::jinja
