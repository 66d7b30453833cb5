// How a byte-level vocabulary spells bytes: each as one printable character.
#pragma once

#include <string>
#include <string_view>

namespace reprofuse::text {

// Printable ASCII and Latin-1 stand for themselves, the other bytes for U+0100 and up: a space is U+0120.
std::string spell_bytes(std::string_view bytes);

// The bytes of a spelling, which is well-formed UTF-8. One with a character that stands for no byte is taken literally.
std::string bytes_of_spelling(std::string_view spelling);

}  // namespace reprofuse::text
