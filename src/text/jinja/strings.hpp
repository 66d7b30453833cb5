// Python's operations on strings, which are sequences of code points with Unicode's white space. `user` names the
// filter or method that asks, for errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.hpp"

namespace reprofuse::text::jinja {

// Of the character that begins with this byte. All of these take well-formed UTF-8.
std::size_t code_point_length(char first_byte);
char32_t code_point_at(std::string_view text, std::size_t at);
std::size_t count_code_points(std::string_view text);
std::string_view last_code_point(std::string_view text);  // of a string that is not empty

// str.isspace() of one character: Unicode's white space, and four separators of ASCII.
bool is_space(char32_t code_point);

enum class StripEnds { kLeft = 1, kRight = 2, kBoth = 3 };
std::string_view strip_space(std::string_view text, StripEnds ends = StripEnds::kBoth);
// Strips every character that occurs in `characters`.
std::string_view strip(std::string_view text, std::string_view characters, StripEnds ends);

// Like find(), in time linear in both, whatever they hold.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);

// ASCII's.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Of ASCII text. The case of other letters needs Unicode's tables, which are not here: an error.
std::string upper(std::string_view text, std::string_view user);
std::string lower(std::string_view text, std::string_view user);
std::string capitalize(std::string_view text, std::string_view user);
std::string title_words(std::string_view text, std::string_view user);   // str.title(): a letter after no letter
std::string title_filter(std::string_view text, std::string_view user);  // Jinja2's: a letter after space - ( { [ <

// At most `count` times; negative: everywhere.
std::string replace(std::string_view text, std::string_view old, std::string_view replacement, std::int64_t count,
                    Budget& budget);

// Without a separator, at runs of white space. At most `count` cuts; negative: all.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator, std::int64_t count,
                               Budget& budget);
std::vector<std::string> split_lines(std::string_view text, Budget& budget);

}  // namespace reprofuse::text::jinja
