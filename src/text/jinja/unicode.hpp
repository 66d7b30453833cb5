// Strings as Python sees them: sequences of code points, with Unicode's white space.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

}  // namespace reprofuse::text::jinja
