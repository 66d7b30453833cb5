#include "text/jinja/strings.hpp"

#include <algorithm>
#include <cstddef>
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

namespace {

constexpr std::uint64_t kStringCost = sizeof(std::string) + sizeof(void*);

void require_ascii(std::string_view text, std::string_view user) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (static_cast<unsigned char>(text[at]) < 0x80) continue;
    template_error("{}: supports ASCII text only, not '{}'", user, text.substr(at, code_point_length(text[at])));
  }
}

char upper_letter(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char lower_letter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Upper case where `begins_word` says so of the character before ('\0' at the start), lower case elsewhere.
template <typename BeginsWord>
std::string change_case(std::string_view text, std::string_view user, const BeginsWord& begins_word) {
  require_ascii(text, user);
  std::string result(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    result[i] = begins_word(i == 0 ? '\0' : text[i - 1]) ? upper_letter(text[i]) : lower_letter(text[i]);
  }
  return result;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::vector<std::string> split_at_space(std::string_view text, std::int64_t count, Budget& budget) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view part) {
    budget.spend_bytes(part.size() + kStringCost);
    parts.emplace_back(part);
  };
  text = strip_space(text, StripEnds::kLeft);
  while (!text.empty()) {
    if (count >= 0 && static_cast<std::int64_t>(parts.size()) == count) {
      add(text);  // with the white space at its end, as in Python
      break;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(code_point_at(text, end))) end += code_point_length(text[end]);
    add(text.substr(0, end));
    text = strip_space(text.substr(end), StripEnds::kLeft);
  }
  return parts;
}

}  // namespace

std::string upper(std::string_view text, std::string_view user) {
  return change_case(text, user, [](char) { return true; });
}

std::string lower(std::string_view text, std::string_view user) {
  return change_case(text, user, [](char) { return false; });
}

std::string capitalize(std::string_view text, std::string_view user) {
  std::string result = lower(text, user);
  if (!result.empty()) result.front() = upper_letter(result.front());
  return result;
}

std::string title_words(std::string_view text, std::string_view user) {
  return change_case(text, user, [](char before) { return !is_letter(before); });
}

std::string title_filter(std::string_view text, std::string_view user) {
  static constexpr std::string_view kOpening = "-({[<";
  return change_case(text, user, [](char before) {
    return before == '\0' || is_space(static_cast<unsigned char>(before)) ||
           kOpening.find(before) != std::string_view::npos;
  });
}

std::string replace(std::string_view text, std::string_view old, std::string_view replacement, std::int64_t count,
                    Budget& budget) {
  std::string result;
  const auto append = [&](std::string_view part) {
    budget.spend_bytes(part.size() + 1);
    result += part;
  };
  std::size_t at = 0;
  while (count != 0) {
    const std::size_t found = find_text(text, old, at);
    if (found == std::string_view::npos) break;
    append(text.substr(at, found - at));
    append(replacement);
    if (count > 0) --count;
    at = found + old.size();
    if (!old.empty()) continue;
    if (at == text.size()) return result;  // nothing is found before each character, and at the end
    const std::size_t length = code_point_length(text[at]);
    append(text.substr(at, length));
    at += length;
  }
  append(text.substr(at));
  return result;
}

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator, std::int64_t count,
                               Budget& budget) {
  if (!separator) return split_at_space(text, count, budget);
  if (separator->empty()) template_error("method 'split': the separator is empty");
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (;;) {
    const bool done = count >= 0 && static_cast<std::int64_t>(parts.size()) == count;
    const std::size_t found = done ? std::string_view::npos : find_text(text, *separator, at);
    const std::string_view part = text.substr(at, found == std::string_view::npos ? found : found - at);
    budget.spend_bytes(part.size() + kStringCost);
    parts.emplace_back(part);
    if (found == std::string_view::npos) return parts;
    at = found + separator->size();
  }
}

std::vector<std::string> split_lines(std::string_view text, Budget& budget) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = code_point_length(text[at]);
    if (is_line_end(code_point_at(text, at))) {
      budget.spend_bytes(at - start + kStringCost);
      lines.emplace_back(text.substr(start, at - start));
      const bool two = text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
      start = at + (two ? 2 : length);
      at = start;
    } else {
      at += length;
    }
  }
  if (start < text.size()) {
    budget.spend_bytes(text.size() - start + kStringCost);
    lines.emplace_back(text.substr(start));
  }
  return lines;
}

}  // namespace reprofuse::text::jinja
