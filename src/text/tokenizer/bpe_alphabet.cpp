#include "text/tokenizer/bpe_alphabet.hpp"

#include <array>
#include <cstdint>

#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

using Alphabet = std::array<char32_t, 256>;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The bytes that do not stand for themselves are spelled U+0100, U+0101, ... in ascending order.
constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) alphabet[byte] = stands_for_itself(byte) ? byte : next++;
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
constexpr std::size_t kAlphabetEnd = 0x144;  // one past the last character of the alphabet

constexpr std::array<std::int16_t, kAlphabetEnd> make_byte_of_character() {
  std::array<std::int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr auto kByteOfCharacter = make_byte_of_character();

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_code_point(kAlphabet[static_cast<unsigned char>(byte)], spelling);
  return spelling;
}

std::string bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t offset = 0; offset < spelling.size();) {
    const char32_t character = next_code_point(spelling, offset);
    if (character >= kAlphabetEnd || kByteOfCharacter[character] < 0) return std::string(spelling);
    bytes += static_cast<char>(kByteOfCharacter[character]);
  }
  return bytes;
}

}  // namespace reprofuse::text
