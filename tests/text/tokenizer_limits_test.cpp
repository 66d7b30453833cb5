// A tokenizer.json that was made to take time or memory is refused, and the message names the field; or it takes no
// more than its size.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <optional>

#include "base/check.hpp"
#include "support/messages.hpp"
#include "text/tokenizer/stages.hpp"
#include "tokenizer_small.hpp"

namespace reprofuse::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::string refusal(const json& document) {
  return reprofuse::error_of([&] { make(document); });
}

double seconds(const std::function<void()>& call) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    call();
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

json steps_of(std::size_t steps, const json& step, const json& last) {
  json list = json::array();
  for (std::size_t i = 1; i < steps; ++i) list.push_back(step);
  list.push_back(last);
  return list;
}

TEST(TokenizerLimits, NameTheListThatIsTooLong) {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const json nfc = {{"type", "NFC"}};
  for (const std::size_t steps : {32U, 33U}) {
    const std::string why =
        steps == 32 ? "" : fmt::format(" (an array of {}) is too long; at most 32 are supported", steps);
    const auto expected = [&](const std::string& field) { return why.empty() ? "" : "small.json: " + field + why; };
    json document = small_tokenizer();
    document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps_of(steps, digits, byte_level)}};
    EXPECT_EQ(refusal(document), expected("pre_tokenizer.pretokenizers"));
    document = small_tokenizer();
    document["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps_of(steps, nfc, nfc)}};
    EXPECT_EQ(refusal(document), expected("normalizer.normalizers"));
    document = small_tokenizer();
    document["post_processor"] = {{"type", "Sequence"}, {"processors", steps_of(steps, byte_level, byte_level)}};
    EXPECT_EQ(refusal(document), expected("post_processor.processors"));
    const json special = {{"SpecialToken", {{"id", "s"}, {"type_id", 0}}}};
    const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    document["post_processor"] = {{"type", "TemplateProcessing"},
                                  {"single", steps_of(steps, special, text)},
                                  {"special_tokens", {{"s", {{"ids", {1}}}}}}};
    EXPECT_EQ(refusal(document), expected("post_processor.single"));
    document["post_processor"] = {{"type", "TemplateProcessing"},
                                  {"single", {special, text}},
                                  {"special_tokens", {{"s", {{"ids", steps_of(steps, 1, 1)}}}}}};
    EXPECT_EQ(refusal(document), expected("post_processor.special_tokens.s.ids"));
  }
  json document = small_tokenizer();
  document["decoder"] = {{"type", "Sequence"}, {"decoders", steps_of(33, byte_level, byte_level)}};
  EXPECT_EQ(refusal(document), "small.json: decoder.decoders (an array of 33) is too long; at most 32 are supported");
}

TEST(TokenizerLimits, NameTheTokenThatIsTooLong) {
  json document = small_tokenizer();
  document["added_tokens"] = json::array({added_token(std::string(4096, 'a'), 256)});
  EXPECT_EQ(refusal(document), "");
  document["added_tokens"][0]["content"] = std::string(4097, 'a');
  EXPECT_EQ(refusal(document), "small.json: added_tokens[0].content '" + std::string(60, 'a') +
                                   "...' has 4097 bytes; at most 4096 are supported");
  document["added_tokens"] = json::array();
  document["model"]["vocab"][std::string(8192, 'a')] = 256;
  EXPECT_EQ(refusal(document), "");
  document["model"]["vocab"][std::string(8193, 'a')] = 257;
  EXPECT_EQ(refusal(document),
            "small.json: model.vocab (an object of 258) has a token of 8193 bytes; at most 8192 are supported");
  document = small_tokenizer();
  for (int i = 0; i <= 1024; ++i)
    document["added_tokens"].push_back(added_token(std::to_string(i) + std::string(4096 - 4, 'a'), 256 + i));
  EXPECT_TRUE(contains(refusal(document), "added_tokens (an array of 1025) has more than 4194304 bytes of content"));
}

TEST(TokenizerLimits, AListOfValuesWithoutEndIsRefusedWhileItIsRead) {
  std::string document = small_tokenizer().dump();
  std::string ids = "\"post_processor\":{\"special_tokens\":{\"x\":{\"ids\":[1";
  for (int i = 0; i < 1 << 22; ++i) ids += ",1";
  document.replace(document.find("\"post_processor\":null"), 21, ids + "]}}}");
  EXPECT_EQ(reprofuse::error_of([&] { Tokenizer::from_json(document, "f"); }),
            "f: has more than 4194304 values; the last one is in 'post_processor.special_tokens.x.ids'");
}

// At each place of the text the token goes on for long before it turns out not to be there.
TEST(TokenizerLimits, LongAddedTokensTakeTimeThatGrowsWithTheTextAlone) {
  const auto encoder = [](std::size_t length) {
    json document = small_tokenizer();
    document["added_tokens"] = json::array({added_token(std::string(length, 'a') + "b", 256)});
    document["pre_tokenizer"]["use_regex"] = true;
    return make(document);
  };
  const Tokenizer little = encoder(4);
  const Tokenizer large = encoder(4000);
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::string(3999, 'a') + "b ";
  EXPECT_LT(seconds([&] { large.encode(text, false); }), 10 * seconds([&] { little.encode(text, false); }));
  EXPECT_EQ(large.encode(std::string(5000, 'a') + "b", false).size(), 1001U);
  EXPECT_EQ(little.encode(std::string(5000, 'a') + "b", false).size(), 4997U);
}

// Tokens that swallow white space walk over it once, however many of them stand in it.
TEST(TokenizerLimits, StrippingTakesTimeThatGrowsWithTheTextAlone) {
  json document = small_tokenizer();
  document["added_tokens"] = json::array({added_token("\n", 256, {{"lstrip", true}, {"rstrip", true}})});
  const Tokenizer tokenizer = make(document);
  const auto encode = [&](std::size_t bytes) {
    return [&, bytes] { tokenizer.encode(std::string(bytes, '\n'), false); };
  };
  EXPECT_LT(seconds(encode(80'000)), 32 * seconds(encode(10'000)));
}

// Pairs that want the same place, or places in a row, would make each look-up a walk over all of them.
TEST(TokenizerLimits, PairsOfOneHashAreRefused) {
  MergeTable table;
  table.reserve(1 << 12);
  std::int32_t added = 0;
  for (std::int32_t right = 0; right < (1 << 24) && added < 2000; ++right) {
    std::uint64_t mixed = std::uint64_t(std::uint32_t(right)) * 0x9E3779B97F4A7C15U;
    mixed ^= mixed >> 32;
    if ((mixed & 0x1FFF) != 7) continue;
    if (!table.add(0, right, {1, 1})) break;
    ++added;
  }
  EXPECT_EQ(added, 1025);
  MergeTable spread;
  spread.reserve(1 << 12);
  for (std::int32_t right = 0; right < 1 << 12; ++right) ASSERT_TRUE(spread.add(0, right, {1, right}));
  for (std::int32_t right = 0; right < 1 << 12; ++right) ASSERT_EQ(spread.find(0, right)->merged, right);
  EXPECT_EQ(spread.find(1, 0), nullptr);
}

TEST(TokenizerLimits, TextsOfMoreTokensThanAllowedAreGivenUp) {
  json document = small_tokenizer({{"a", "b"}});
  document["added_tokens"] = json::array({added_token("<s>", 300)});
  document["normalizer"] = {{"type", "NFC"}};
  document["pre_tokenizer"]["use_regex"] = true;
  const Tokenizer tokenizer = make(document);
  for (const std::string text : {"ab ab ab", "<s>ab<s>", "abababab", "e\u0301e\u0301", "", "a b\n\nc"}) {
    const Ids ids = tokenizer.encode(text, false);
    for (std::size_t max_tokens = 0; max_tokens < 12; ++max_tokens) {
      EncodeOptions options;
      options.max_tokens = max_tokens;
      const auto within = tokenizer.encode_within(text, options);
      EXPECT_EQ(within.has_value(), ids.size() <= max_tokens) << text << " within " << max_tokens;
      EXPECT_EQ(within.value_or(ids), ids);
    }
  }
}

// Words, one word, one that normalization changes, and added tokens.
TEST(TokenizerLimits, ALongTextIsGivenUpSoon) {
  json document = small_tokenizer({{"a", "b"}});
  document["added_tokens"] = json::array({added_token("<s>", 300)});
  document["pre_tokenizer"]["use_regex"] = true;
  const Tokenizer tokenizer = make(document);
  for (const std::string bit : {"ab ", "ab", "<s>", "e\u0301"}) {
    std::string text;
    while (text.size() < (2U << 20)) text += bit;
    EncodeOptions options;
    options.max_tokens = 1000;
    EXPECT_EQ(tokenizer.encode_within(text, options), std::nullopt);
    EXPECT_LT(3 * seconds([&] { tokenizer.encode_within(text, options); }),
              seconds([&] { tokenizer.encode(text, false); }))
        << bit;
  }
}

TEST(TokenizerLimits, EncodingAsksNowAndThenWhetherToGoOn) {
  struct Enough {};
  for (const bool words : {false, true}) {
    json document = small_tokenizer({{"a", "b"}});
    document["pre_tokenizer"]["use_regex"] = words;
    document["normalizer"] = words ? json() : json{{"type", "NFC"}};
    const Tokenizer tokenizer = make(document);
    std::string text;
    while (text.size() < (1U << 20)) text += words ? "ab " : "ab";
    int calls = 0;
    EncodeOptions options;
    options.poll = [&] { ++calls; };
    EXPECT_EQ(tokenizer.encode_within(text, options), tokenizer.encode(text, false));
    EXPECT_GT(calls, 8);
    options.poll = [&] { throw Enough(); };
    EXPECT_THROW(tokenizer.encode_within(text, options), Enough);
  }
}

Ids encode_plain(const Tokenizer& tokenizer, const std::string& text, std::vector<TextSpan> plain) {
  EncodeOptions options;
  options.plain = plain;
  return *tokenizer.encode_within(text, options);
}

TEST(TokenizerPlain, NoAddedTokenHasAByteOfAPlainPart) {
  json document = small_tokenizer();
  document["added_tokens"] =
      json::array({added_token("<s>", 300), added_token("<s>>", 301), added_token("  ", 302, {{"special", false}}),
                   added_token("<n>", 303, {{"special", false}, {"normalized", true}})});
  const Tokenizer tokenizer = make(document);
  const std::string text = "<s><s><s>";
  EXPECT_EQ(encode_plain(tokenizer, text, {}), (Ids{300, 300, 300})) << "the control";
  EXPECT_EQ(encode_plain(tokenizer, text, {{3, 6}}), (Ids{300, '<', 's', '>', 300}));
  EXPECT_EQ(encode_plain(tokenizer, text, {{2, 3}}), (Ids{'<', 's', '>', 300, 300}));
  EXPECT_EQ(encode_plain(tokenizer, text, {{0, 9}}), (Ids{'<', 's', '>', '<', 's', '>', '<', 's', '>'}));
  EXPECT_EQ(encode_plain(tokenizer, "<s>>", {}), (Ids{301}));
  EXPECT_EQ(encode_plain(tokenizer, "<s>>", {{3, 4}}), (Ids{300, '>'})) << "a shorter token ends before it";
  EXPECT_EQ(encode_plain(tokenizer, "<n><n>", {{3, 6}}), (Ids{303, '<', 'n', '>'}));
  EXPECT_EQ(encode_plain(tokenizer, "<s>  <s>", {{0, 8}}), (Ids{'<', 's', '>', 302, '<', 's', '>'}));
  EXPECT_EQ(encode_plain(tokenizer, "a<n>b<s>c", {{1, 4}, {5, 8}}), (Ids{'a', '<', 'n', '>', 'b', '<', 's', '>', 'c'}));
  EXPECT_THROW(encode_plain(tokenizer, "abc", {{2, 4}}), Error);
  EXPECT_THROW(encode_plain(tokenizer, "abc", {{1, 2}, {0, 1}}), Error);
}

// Merges, or a whole piece, may spell what is also an added token.
TEST(TokenizerPlain, WhatCannotBePlainIsRefused) {
  json document = small_tokenizer({{"<", "s"}, {"<s", ">"}});
  document["added_tokens"] = json::array({added_token("<s>", 257)});
  EXPECT_EQ(encode_plain(make(document), "<s>", {}), (Ids{257}));
  EXPECT_THROW(encode_plain(make(document), "<s>", {{0, 3}}), Error);
  document["model"]["merges"] = json::array();
  EXPECT_EQ(encode_plain(make(document), "<s>", {{0, 3}}), (Ids{'<', 's', '>'}));
  document["model"]["ignore_merges"] = true;
  EXPECT_THROW(encode_plain(make(document), "<s>", {{0, 3}}), Error);

  document = small_tokenizer();
  document["normalizer"] = {{"type", "NFC"}};
  document["added_tokens"] = json::array({added_token("<n>", 303, {{"normalized", true}})});
  EXPECT_EQ(encode_plain(make(document), "\u00e9<n><n>", {{2, 5}}), (Ids{0xC3, 0xA9, '<', 'n', '>', 303}));
  EXPECT_THROW(encode_plain(make(document), "e\u0301<n><n>", {{3, 6}}), Error);
  document["added_tokens"][0]["normalized"] = false;
  EXPECT_EQ(encode_plain(make(document), "e\u0301<n><n>", {{3, 6}}), (Ids{0xC3, 0xA9, '<', 'n', '>', 303}));
}

}  // namespace
}  // namespace reprofuse::text
