#include "reprofuse/tokenizer.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "reprofuse/error.hpp"
#include "tokenizer_files.hpp"
#include "tokenizer_small.hpp"

namespace reprofuse::text {
namespace {

TEST(Tokenizer, MergesTheEarliestPairFirstAndTheLeftmostAmongEquals) {
  const Tokenizer tokenizer = make(small_tokenizer({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "aa"}}));
  const int bc = 256, ab = 257, aa = 258, aaaa = 259;
  EXPECT_EQ(tokenizer.encode("abc", false), (Ids{'a', bc}));
  EXPECT_EQ(tokenizer.encode("ab", false), (Ids{ab}));
  EXPECT_EQ(tokenizer.encode("aaa", false), (Ids{aa, 'a'}));
  EXPECT_EQ(tokenizer.encode("aaaaaaa", false), (Ids{aaaa, aa, 'a'}));
}

// Quadratic time would be minutes here.
TEST(Tokenizer, EncodesOneWordOfAMillionLetters) {
  const Tokenizer tokenizer = make(small_tokenizer({{"a", "a"}, {"aa", "aa"}, {"b", "a"}}));
  const Ids ids = tokenizer.encode(std::string(1'000'002, 'a'), false);
  ASSERT_EQ(ids.size(), 250'001U);
  EXPECT_EQ(ids.front(), 257);
  EXPECT_EQ(ids.back(), 256);
}

TEST(Tokenizer, TakesMergesAsStringsAndAsPairs) {
  nlohmann::json pairs = small_tokenizer({{"a", "b"}, {"ab", "c"}});
  nlohmann::json strings = pairs;
  strings["model"]["merges"] = {"a b", "ab c"};
  EXPECT_EQ(make(pairs).encode("abcab", false), (Ids{257, 256}));
  EXPECT_EQ(make(strings).encode("abcab", false), (Ids{257, 256}));
}

TEST(Tokenizer, IgnoreMergesTakesAWholePieceThatNoMergeMakes) {
  nlohmann::json document = small_tokenizer();
  document["model"]["vocab"]["whole"] = 256;
  EXPECT_EQ(make(document).encode("whole", false), (Ids{'w', 'h', 'o', 'l', 'e'}));
  document["model"]["ignore_merges"] = true;
  EXPECT_EQ(make(document).encode("whole", false), (Ids{256}));
}

TEST(Tokenizer, FindsTheLongestAddedTokenFromLeftToRight) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] =
      nlohmann::json::array({added_token("<a>", 256), added_token("<a><b>", 257), added_token("b>", 258)});
  const Tokenizer tokenizer = make(document);
  EXPECT_EQ(tokenizer.encode("<a><b>", false), (Ids{257}));
  EXPECT_EQ(tokenizer.encode("x<a>b><a", false), (Ids{'x', 256, 258, '<', 'a'}));
  EXPECT_EQ(tokenizer.encode("<a><b", false), (Ids{256, '<', 'b'}));
}

// A token that is not normalized is found first, even to the right of one that is.
TEST(Tokenizer, FindsVerbatimTokensBeforeNormalizedOnes) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] =
      nlohmann::json::array({added_token("xy", 256, {{"normalized", true}}), added_token("yz", 257)});
  EXPECT_EQ(make(document).encode("xyz", false), (Ids{'x', 257}));
}

TEST(Tokenizer, FindsNormalizedTokensInNormalizedText) {
  nlohmann::json document = small_tokenizer();
  document["normalizer"] = {{"type", "NFC"}};
  document["added_tokens"] = nlohmann::json::array({added_token("e\u0301", 256, {{"normalized", true}})});
  EXPECT_EQ(make(document).encode("\u00e9", false), (Ids{256}));
  EXPECT_EQ(make(document).encode("e\u0301", false), (Ids{256}));
}

TEST(Tokenizer, AddedTokensSwallowTheWhiteSpaceTheyStrip) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] =
      nlohmann::json::array({added_token("<l>", 256, {{"lstrip", true}}), added_token("<r>", 257, {{"rstrip", true}})});
  const Tokenizer tokenizer = make(document);
  EXPECT_EQ(tokenizer.encode("a \u3000\n<l> b", false), (Ids{'a', 256, ' ', 'b'}));
  EXPECT_EQ(tokenizer.encode("a <r>\u0085\t b", false), (Ids{'a', ' ', 257, 'b'}));
  EXPECT_EQ(tokenizer.encode("<r>  <l>", false), (Ids{257, 256}));
  EXPECT_EQ(tokenizer.encode("  ", false), (Ids{' ', ' '}));
}

// As Hugging Face's tokenizers 0.22 have it: the token before swallows the white space, and what was found in it counts
// nevertheless; the text goes on where that ends.
TEST(Tokenizer, ATokenOfWhiteSpaceIsFoundWhereTheTokenBeforeHasSwallowedIt) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] = nlohmann::json::array({added_token("<r>", 256, {{"rstrip", true}}), added_token("  ", 257),
                                                    added_token("\t", 258, {{"lstrip", true}})});
  const Tokenizer tokenizer = make(document);
  EXPECT_EQ(tokenizer.encode("<r>x", false), (Ids{256, 'x'}));
  EXPECT_EQ(tokenizer.encode("<r> x", false), (Ids{256, 'x'}));
  EXPECT_EQ(tokenizer.encode("<r>  x", false), (Ids{256, 257, 'x'}));
  EXPECT_EQ(tokenizer.encode("<r>   x", false), (Ids{256, 257, ' ', 'x'}));
  EXPECT_EQ(tokenizer.encode("<r>     x", false), (Ids{256, 257, 257, ' ', 'x'}));
  EXPECT_EQ(tokenizer.encode("a   x", false), (Ids{'a', 257, ' ', 'x'}));
  EXPECT_EQ(tokenizer.encode("<r>\tx", false), (Ids{256, 'x'})) << "what strips to the left finds nothing left";
}

TEST(Tokenizer, PutsTemplateTokensAroundTheText) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] = nlohmann::json::array({added_token("<s>", 256), added_token("</s>", 257)});
  const auto special = [](const char* id) { return nlohmann::json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}}; };
  document["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special("<s>"), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special("</s>"), special("</s>")}},
      {"pair", nlohmann::json::array()},
      {"special_tokens", {{"<s>", {{"ids", {256}}}}, {"</s>", {{"ids", {257}}}}}}};
  const Tokenizer tokenizer = make(document);
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{256, 'a', 257, 257}));
  EXPECT_EQ(tokenizer.encode("", true), (Ids{256, 257, 257}));
  EXPECT_EQ(tokenizer.encode("a", false), (Ids{'a'}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a", true)), "a");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a", true), false), "<s>a</s></s>");
  EXPECT_TRUE(tokenizer.has_template());
  EXPECT_FALSE(make(small_tokenizer()).has_template());
}

TEST(Tokenizer, KnowsItsTokens) {
  nlohmann::json document = small_tokenizer({{"\u0120", "t"}});
  document["added_tokens"] =
      nlohmann::json::array({added_token("<|eot|>", 260), added_token("<x>", 261, {{"special", false}})});
  const Tokenizer tokenizer = make(document);
  EXPECT_EQ(tokenizer.vocab_size(), 262U);
  EXPECT_EQ(tokenizer.token_id("<|eot|>"), 260);
  EXPECT_EQ(tokenizer.token_id("\u0120t"), 256);
  EXPECT_EQ(tokenizer.token_id(" t"), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(256), " t");
  EXPECT_EQ(tokenizer.token_bytes(0xFF), "\xFF");
  EXPECT_TRUE(tokenizer.is_special(260));
  EXPECT_FALSE(tokenizer.is_special(261));
}

TEST(Tokenizer, RefusesIdsWithoutAToken) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] = nlohmann::json::array({added_token("<x>", 300)});
  const Tokenizer tokenizer = make(document);
  for (const std::int32_t id : {-1, 256, 299, 301, 2147483647}) {
    EXPECT_THROW(tokenizer.decode(Ids{id}), Error) << id;
    EXPECT_THROW(tokenizer.token_bytes(id), Error) << id;
    EXPECT_THROW(tokenizer.is_special(id), Error) << id;
  }
  EXPECT_EQ(tokenizer.decode(Ids{300}, false), "<x>");
}

TEST(Tokenizer, NamesTheFirstByteThatIsNotUtf8) {
  const Tokenizer tokenizer = make(small_tokenizer());
  try {
    tokenizer.encode("abc\xC3(", false);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the text is not well-formed UTF-8 at byte 3 of 5");
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

TEST(Tokenizer, NamesAByteThatTheVocabularyLacks) {
  nlohmann::json document = small_tokenizer();
  document["model"]["vocab"].erase("x");
  EXPECT_EQ(make(document).encode("ay", false), (Ids{'a', 'y'}));
  EXPECT_THROW(make(document).encode("axy", false), Error);
}

TEST(Tokenizer, AddsAPrefixSpaceWhereOneIsMissing) {
  nlohmann::json document = small_tokenizer();
  document["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(make(document).encode("a", false), (Ids{' ', 'a'}));
  EXPECT_EQ(make(document).encode(" a", false), (Ids{' ', 'a'}));
  EXPECT_EQ(make(document).encode("\na", false), (Ids{' ', '\n', 'a'}));
}

TEST(Tokenizer, KeepsNoMergeAcrossDigitsOnceTheyAreSplit) {
  nlohmann::json document = small_tokenizer({{"1", "2"}, {"a", "1"}});
  nlohmann::json digits = {{"type", "Digits"}, {"individual_digits", false}};
  const nlohmann::json byte_level = document["pre_tokenizer"];
  document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level}}};
  EXPECT_EQ(make(document).encode("a12", false), (Ids{'a', 256}));
  document["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = true;
  EXPECT_EQ(make(document).encode("a12", false), (Ids{'a', '1', '2'}));
}

TEST(Tokenizer, ServesManyThreadsAtOnce) {
  const Tokenizer tokenizer = load_style("qwen");
  const std::string text = "It's 12345 cafe\u0301 <|im_end|>\n\n  \u6570\u5b66 " + std::string(500, 'x');
  const Ids expected = tokenizer.encode(text, false);
  std::vector<std::thread> threads;
  std::vector<int> differences(4);
  for (int& count : differences) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) count += tokenizer.encode(text, false) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, std::vector<int>(4));
}

TEST(Tokenizer, CopiesShareOneVocabulary) {
  const Tokenizer tokenizer = make(small_tokenizer());
  const Tokenizer copy = tokenizer;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(&tokenizer.token_bytes('a'), &copy.token_bytes('a'));
}

}  // namespace
}  // namespace reprofuse::text
