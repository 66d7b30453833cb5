// UTF-8, white space and normalization, as the Unicode standard defines them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace reprofuse::text {

// U+FFFD, which stands for what could not be decoded.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Where the first byte that is not part of well-formed UTF-8 stands; nothing when all of it is well-formed.
// Overlong forms, surrogates and code points above U+10FFFF are not well-formed.
std::optional<std::size_t> find_invalid_utf8(std::string_view bytes);

// Appends bytes to text with each ill-formed part replaced by U+FFFD: one for each maximal subpart, the practice that
// the Unicode standard recommends and that Rust, browsers and Python follow. Returns how many bytes it used: all but an
// unfinished character at the end, which later bytes may finish.
std::size_t append_utf8_replacing(std::string_view bytes, std::string& text);

// The same for bytes after which nothing comes: an unfinished character at the end becomes U+FFFD.
std::string utf8_replacing(std::string_view bytes);

// The code point that starts at an offset of well-formed UTF-8, which it moves to the next one.
char32_t next_code_point(std::string_view utf8, std::size_t& offset);

void append_code_point(char32_t code_point, std::string& utf8);

// The property White_Space: what \s means in tokenizer.json.
bool is_white_space(char32_t code_point);

// The length in bytes of the white space that well-formed UTF-8 starts with, or ends with.
std::size_t leading_white_space(std::string_view utf8);
std::size_t trailing_white_space(std::string_view utf8);

// The Unicode versions of the tables that decide token ids: classes in patterns, then normalization. "none" where this
// build has no tokenizer.
std::string unicode_versions();

// Normalization Form C of well-formed UTF-8, in near-linear time for every input. `poll`, if there is one, is called
// now and then.
std::string normalize_nfc(std::string_view utf8, const std::function<void()>& poll = {});

}  // namespace reprofuse::text
