// PCRE2 cuts text where Oniguruma, for which the patterns of tokenizer.json are written, cuts it.
#include <gtest/gtest.h>
#include <pcre2.h>

#include <memory>
#include <random>

#include "reprofuse/error.hpp"
#include "text/tokenizer/stages.hpp"
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
  Parts parts;
  std::size_t bytes = 0;
  Pattern(pattern, "test").split(text, scratch, [&](std::string_view part) {
    bytes += part.size();
    parts.emplace_back(part);
  });
  EXPECT_EQ(bytes, text.size());
  return parts;
}

bool matches(const Pattern& pattern, char32_t code_point, Pattern::Scratch& scratch) {
  std::string text = "-";
  append_code_point(code_point, text);
  int parts = 0;
  pattern.split(text, scratch, [&](std::string_view) { ++parts; });
  return parts == 2;
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
    EXPECT_STREQ(error.what(),
                 "test: the pattern fails on a text of 60 bytes: it takes more steps than the 32 for each byte that it "
                 "may");
  }
}

// Walking back over white space takes a step for each character, which must not count as exploding.
TEST(TokenizerPattern, TakesLongRunsOfWhiteSpace) {
  const std::string spaces(3'000'000, ' ');
  EXPECT_EQ(split(kLlama3, spaces), (Parts{spaces}));
  EXPECT_EQ(split(kLlama3, spaces + "x"), (Parts{spaces.substr(1), " x"}));
}

// GPT-4o's, as published with it: two alternatives walk over a word before one of them takes it.
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kPublished[] = {kLlama3, kDeepSeekV3, kGpt4, kGpt4o, kGpt2};

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

// Parts as PCRE2 finds them with all of the text in sight.
Parts split_in_full_sight(const std::string& pattern, const std::string& text) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string source = to_pcre2(pattern, "test");
  const std::unique_ptr<pcre2_code, void (*)(pcre2_code*)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset,
                    nullptr),
      [](pcre2_code* c) { pcre2_code_free(c); });
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), [](pcre2_match_data* d) { pcre2_match_data_free(d); });
  Parts parts;
  std::size_t done = 0;
  const auto end_part = [&](std::size_t end) {
    if (end > done) parts.push_back(text.substr(done, end - done));
    done = std::max(done, end);
  };
  for (std::size_t start = 0; start < text.size();) {
    if (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start, 0, data.get(), nullptr) <
        0)
      break;
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
    end_part(match[0]);
    end_part(match[1]);
    start = match[1];
    if (match[1] > match[0]) continue;
    do ++start;
    while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80);
  }
  end_part(text.size());
  return parts;
}

TEST(TokenizerPattern, CutsAsPcre2DoesThatSeesAllOfTheText) {
  const std::string bits[] = {"a",  "B", "\u00e9", "\u4e2d", "\u0301", "7",      " ", "\n",
                              "\r", "'", "s",      "!",      "/",      "\u3000", "x1"};
  const std::string patterns[] = {
      kLlama3,    kDeepSeekV3,         kGpt4, kGpt4o,           kGpt2,           R"(\p{N})", R"(\p{L}+7)",
      "(?<=a)B?", R"((?<!s)\s+(?=x))", "x*",  R"(a(?=[^7]*7))", R"((?:aB)+|B+)", "(?=7)"};
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int run = 0; run < 12; ++run) {
      const std::string& bit = bits[random() % std::size(bits)];
      const std::size_t times = random() % 4 == 0 ? random() % 200 : 1 + random() % 3;
      for (std::size_t i = 0; i < times; ++i) text += bit;
    }
    for (const std::string& pattern : patterns)
      ASSERT_EQ(split(pattern, text), split_in_full_sight(pattern, text)) << pattern << " on " << text;
  }
}

TEST(TokenizerPattern, TakesLongTextsOfAnythingWithPublishedPatterns) {
  for (const char* bit : {"a", "A",   "\u4e2d", "\u0301", "7",   " ",      "\n",         " \n", "\n ", "'", "'s",
                          "!", "!\n", "a'",     "Aa",     "a A", "\u3000", "word word ", " a",  "1a",  "/", "\r\n"}) {
    const std::string text = repeated(bit, 1 << 18);
    for (const char* pattern : kPublished) EXPECT_FALSE(split(pattern, text + "x").empty()) << pattern << " on " << bit;
  }
}

// Each place costs a walk over the rest of the text: hours, were it not refused.
TEST(TokenizerPattern, StopsAPatternThatTakesQuadraticTime) {
  const std::pair<const char*, const char*> cases[] = {{R"(\p{L}+\p{N})", "a"},    {R"(\p{L}*\p{N})", "a"},
                                                       {R"((?:a|b)+\p{N})", "ab"}, {R"(a(?=[^7]*7))", "a"},
                                                       {"(a+)+[bc]", "a"},         {R"((?:\s*\s*)*[bc])", " "}};
  for (const auto& [pattern, bit] : cases) {
    try {
      split(pattern, repeated(bit, 1 << 18));
      ADD_FAILURE() << pattern << " is not stopped";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.substr(0, message.find(':', 6)), "test: the pattern fails on a text of 262144 bytes");
    }
  }
  EXPECT_EQ(split(R"(\p{L}+\p{N})", repeated("abc7", 1 << 16)).size(), (1U << 16) / 4) << "the control";
}

}  // namespace
}  // namespace reprofuse::text
