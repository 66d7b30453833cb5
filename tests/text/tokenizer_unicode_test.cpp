#include <gtest/gtest.h>

#include <regex>

#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

const std::string kBad(kReplacementCharacter);

// A fingerprint names them, since both decide token ids.
TEST(Unicode, TheVersionsOfBothTablesAreKnown) {
  const std::regex two_versions("[0-9]+\\.[0-9]+\\.[0-9]+ [0-9]+\\.[0-9]+\\.[0-9]+");
  EXPECT_TRUE(std::regex_match(unicode_versions(), two_versions)) << unicode_versions();
}

TEST(TokenizerUnicode, EncodesAndDecodesEveryCodePoint) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string utf8;
    append_code_point(c, utf8);
    std::size_t offset = 0;
    ASSERT_EQ(next_code_point(utf8, offset), c);
    ASSERT_EQ(offset, utf8.size());
    ASSERT_EQ(find_invalid_utf8(utf8), std::nullopt);
    for (std::size_t length = 1; length < utf8.size(); ++length) {
      ASSERT_EQ(find_invalid_utf8(utf8.substr(0, length)), 0U);
      ASSERT_EQ(utf8_replacing(utf8.substr(0, length)), kBad);
    }
  }
}

TEST(TokenizerUnicode, FindsWhatIsNotWellFormed) {
  EXPECT_EQ(find_invalid_utf8("ab\xC0\xAF"), 2U);         // overlong
  EXPECT_EQ(find_invalid_utf8("\xE0\x80\x80"), 0U);       // overlong
  EXPECT_EQ(find_invalid_utf8("a\xED\xA0\x80"), 1U);      // a surrogate
  EXPECT_EQ(find_invalid_utf8("a\xF4\x90\x80\x80"), 1U);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("a\xF5\x80\x80\x80"), 1U);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("a\xE2\x82"), 1U);          // cut short
  EXPECT_EQ(find_invalid_utf8("\x80"), 0U);               // a continuation without a start
}

// The examples of the Unicode standard, tables 3-8 to 3-11.
TEST(TokenizerUnicode, ReplacesMaximalSubparts) {
  EXPECT_EQ(utf8_replacing("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(utf8_replacing("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(utf8_replacing("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(utf8_replacing("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), kBad + kBad + kBad + kBad + "A");
}

TEST(TokenizerUnicode, MeasuresWhiteSpaceAtBothEnds) {
  EXPECT_EQ(leading_white_space(" \u3000\u0085x "), 6U);
  EXPECT_EQ(trailing_white_space(" x\u2028\n"), 4U);
  EXPECT_EQ(leading_white_space("\u180e "), 0U);
  EXPECT_EQ(trailing_white_space(" \ufeff"), 0U);
  EXPECT_EQ(leading_white_space("\u2000\u200a\u200b"), 6U);
  EXPECT_EQ(leading_white_space("\t\t"), 2U);
  EXPECT_EQ(trailing_white_space("\t\t"), 2U);
  EXPECT_EQ(leading_white_space(""), 0U);
}

TEST(TokenizerUnicode, ComposesCanonically) {
  EXPECT_EQ(normalize_nfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(normalize_nfc("\u212b\u2126"), "\u00c5\u03a9");        // singletons
  EXPECT_EQ(normalize_nfc("\u0958"), "\u0915\u093c");              // excluded from composition
  EXPECT_EQ(normalize_nfc("\u1112\u1161\u11ab"), "\xED\x95\x9C");  // Hangul
  EXPECT_EQ(normalize_nfc("\uac00\u11a8"), "\uac01");              // Hangul, composed in part
  EXPECT_EQ(normalize_nfc("a\u0301\u0323"), "\u1ea1\u0301");       // marks in canonical order
  EXPECT_EQ(normalize_nfc("\U0001d15e"), "\U0001d157\U0001d165");  // excluded, beyond the first plane
  EXPECT_EQ(normalize_nfc("\u1e9b\u0323"), "\u1e9b\u0323");        // not compatibility
  EXPECT_EQ(normalize_nfc("plain \u00e9\u02ff"), "plain \u00e9\u02ff");
  EXPECT_EQ(normalize_nfc("\u0301a"), "\u0301a");
  EXPECT_EQ(normalize_nfc(""), "");
}

// Sorting marks by insertion would take minutes here.
TEST(TokenizerUnicode, ComposesLongRunsOfMarks) {
  constexpr int kPairs = 300'000;
  std::string mixed = "q";
  std::string sorted = "q";
  for (int i = 0; i < kPairs; ++i) mixed += "\u0307\u0323";
  for (int i = 0; i < kPairs; ++i) sorted += "\u0323";
  for (int i = 0; i < kPairs; ++i) sorted += "\u0307";
  EXPECT_TRUE(normalize_nfc(mixed) == sorted);
}

}  // namespace
}  // namespace reprofuse::text
