// PCRE2 cuts text where Oniguruma, for which the patterns of tokenizer.json are written, cuts it.
#include <gtest/gtest.h>

#include "reprofuse/error.hpp"
#include "text/tokenizer/pretokenizer.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {
namespace {

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// DeepSeek-V3's third pattern and GPT-4's, as published with them.
constexpr const char* kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4 =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

using Parts = std::vector<std::string>;

Parts split(const std::string& pattern, const std::string& text) {
  Pattern::Scratch scratch;
  std::vector<std::size_t> ends;
  Pattern(pattern, "test").split(text, 0, scratch, ends);
  Parts parts;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return parts;
}

bool matches(const Pattern& pattern, char32_t code_point, Pattern::Scratch& scratch) {
  std::string text = "-";
  append_code_point(code_point, text);
  std::vector<std::size_t> ends;
  pattern.split(text, 0, scratch, ends);
  return ends.size() == 2;
}

TEST(TokenizerPattern, CutsAsPublishedPatternsDo) {
  EXPECT_EQ(split(kLlama3, "I'LL say: 12345!\r\n\n  x  "),
            (Parts{"I", "'LL", " say", ":", " ", "123", "45", "!\r\n\n", " ", " x", "  "}));
  EXPECT_EQ(split(kDeepSeekV3, "a_b1 [x]"), (Parts{"a", "_b", "1", " [", "x", "]"}));
  EXPECT_EQ(split(kGpt4, "don't  2024\n"), (Parts{"don", "'t", " ", " ", "202", "4", "\n"}));
}

// Oniguruma folds U+017F to s, as Unicode says; so 'ſ is a contraction. transformers.js knows ASCII letters alone.
TEST(TokenizerPattern, FoldsCaseAsUnicodeDoes) {
  EXPECT_EQ(split(kLlama3, "it'\u017fa"), (Parts{"it", "'\u017f", "a"}));
  EXPECT_EQ(split(kLlama3, "it'Sa"), (Parts{"it", "'S", "a"}));
  EXPECT_EQ(split("(?i:k)", "a\u212ab"), (Parts{"a", "\u212a", "b"}));
  EXPECT_EQ(split("k", "a\u212ab"), (Parts{"a\u212ab"}));
}

TEST(TokenizerPattern, WhiteSpaceIsThePropertyOfThatName) {
  const Pattern white_space(R"(\s)", "test");
  const Pattern other(R"([^\S])", "test");
  Pattern::Scratch scratch;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    ASSERT_EQ(matches(white_space, c, scratch), is_white_space(c)) << std::hex << static_cast<unsigned>(c);
  }
  for (char32_t c = 0; c < 0x3100; ++c) {
    ASSERT_EQ(matches(other, c, scratch), is_white_space(c)) << std::hex << static_cast<unsigned>(c);
  }
  EXPECT_TRUE(is_white_space(0x85));
  EXPECT_FALSE(is_white_space(0x180E));
  EXPECT_FALSE(is_white_space(0xFEFF));
}

TEST(TokenizerPattern, TranslatesWhatTheTwoLibrariesReadDifferently) {
  EXPECT_EQ(to_pcre2(R"(\s[^\S\d])", "test"), R"(\p{White_Space}[^\P{White_Space}\p{Nd}])");
  EXPECT_EQ(to_pcre2(R"(\p{Han}\P{Lu})", "test"), R"(\p{sc:Han}\P{Lu})");
  EXPECT_EQ(to_pcre2(R"(a{2}b{1,}c{,3}d{1,2})", "test"), R"(a{2}b{1,}c{0,3}d{1,2})");
  EXPECT_EQ(to_pcre2(R"(a{x}{]})", "test"), R"(a\{x\}\{\]\})");
  EXPECT_EQ(to_pcre2(R"(\x{4e00}\u3040\x2d\-\r)", "test"), R"(\x{4e00}\x{3040}\x{2d}\-\x{0D})");
  EXPECT_EQ(to_pcre2("[一-龥]", "test"), "[一-龥]");
}

TEST(TokenizerPattern, KeepsWhatLiesBetweenMatchesAndCutsAtEmptyOnes) {
  EXPECT_EQ(split("b", "abcab"), (Parts{"a", "b", "ca", "b"}));
  EXPECT_EQ(split("x", "abc"), (Parts{"abc"}));
  EXPECT_EQ(split("(?=b)", "abéb"), (Parts{"a", "bé", "b"}));
  EXPECT_EQ(split("x*", "é😀"), (Parts{"é", "😀"}));
  EXPECT_EQ(split("x", ""), Parts{});
}

TEST(TokenizerPattern, RefusesWhatItDoesNotKnow) {
  for (const char* pattern : {R"(\w)",
                              R"(\b)",
                              R"(\h)",
                              R"(\R)",
                              R"(\1)",
                              R"(\Qa\E)",
                              R"(\k<a>)",
                              "a.b",
                              "^a",
                              "a$",
                              "[[:alpha:]]",
                              "[a[b]]",
                              "[a&&b]",
                              "[]",
                              "[]a]",
                              "[^]",
                              "(?<name>a)",
                              "(?i)a",
                              "(?x:a)",
                              "(*ACCEPT)",
                              "(*LIMIT_MATCH=9)a",
                              R"(\p{^L})",
                              R"(\pL)",
                              R"(\p{sc:Han})",
                              R"(\p{Nope})",
                              "a{2}+",
                              "a{2}?",
                              R"(\xFF)",
                              R"(\x{110000})",
                              R"(\xg0)",
                              R"(\u12)",
                              "[a",
                              "a\\",
                              "(",
                              ")"}) {
    EXPECT_THROW(Pattern(pattern, "test"), Error) << pattern;
  }
  EXPECT_THROW(Pattern(std::string(20'000, 'a'), "test"), Error);
}

TEST(TokenizerPattern, StopsAPatternThatExplodes) {
  try {
    split("(a+)+[bc]", std::string(60, 'a'));
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "test: the pattern fails on a text of 60 bytes: match limit exceeded");
  }
}

// Walking back over white space takes a step for each character, which must not count as exploding.
TEST(TokenizerPattern, TakesLongRunsOfWhiteSpace) {
  const std::string spaces(3'000'000, ' ');
  EXPECT_EQ(split(kLlama3, spaces), (Parts{spaces}));
  EXPECT_EQ(split(kLlama3, spaces + "x"), (Parts{spaces.substr(1), " x"}));
}

}  // namespace
}  // namespace reprofuse::text
