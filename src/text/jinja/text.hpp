// Python's operations on strings that filters and methods share. `user` names the one that asks, for errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/limits.hpp"

namespace reprofuse::text::jinja {

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
