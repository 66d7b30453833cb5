#include "text/tokenizer/detokenizer.hpp"

#include <gtest/gtest.h>

#include <random>

#include "reprofuse/error.hpp"
#include "text/tokenizer/unicode.hpp"
#include "tokenizer_files.hpp"
#include "tokenizer_small.hpp"

namespace reprofuse::text {
namespace {

Ids bytes(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST(StreamDetokenizer, WaitsForTheEndOfACharacter) {
  StreamDetokenizer stream(make(small_tokenizer()));
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\U0001F600");
  EXPECT_EQ(stream.flush(), "");
}

TEST(StreamDetokenizer, ReplacesWhatIsNeverFinished) {
  StreamDetokenizer stream(make(small_tokenizer()));
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('a'), "\uFFFDa");
  EXPECT_EQ(stream.push(0xFF), "\uFFFD");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push('b'), "b");
}

// A special token that is skipped is as if it were not there, in decode() and in a stream.
TEST(StreamDetokenizer, SkipsSpecialTokensInsideACharacter) {
  nlohmann::json document = small_tokenizer();
  document["added_tokens"] = nlohmann::json::array({added_token("<s>", 256)});
  const Tokenizer tokenizer = make(document);
  const Ids ids = {0xC3, 256, 0xA9};
  for (const bool skip : {false, true}) {
    StreamDetokenizer stream(tokenizer, skip);
    std::string text;
    for (const std::int32_t id : ids) text += stream.push(id);
    EXPECT_EQ(text + stream.flush(), tokenizer.decode(ids, skip));
    EXPECT_EQ(tokenizer.decode(ids, skip), skip ? "\u00e9" : "\uFFFD<s>\uFFFD");
  }
}

TEST(StreamDetokenizer, EqualsDecodeForRandomIds) {
  for (const std::string& style : styles()) {
    const Tokenizer tokenizer = load_style(style);
    std::mt19937 random(7);
    for (int round = 0; round < 500; ++round) {
      Ids ids(random() % 40);
      for (auto& id : ids)
        id = static_cast<std::int32_t>(random() % (random() % 2 == 0 ? 256 : tokenizer.vocab_size()));
      const bool skip = round % 2 == 0;
      StreamDetokenizer stream(tokenizer, skip);
      std::string text;
      for (const std::int32_t id : ids) {
        const std::string part = stream.push(id);
        ASSERT_EQ(find_invalid_utf8(part), std::nullopt);
        text += part;
      }
      ASSERT_EQ(text + stream.flush(), tokenizer.decode(ids, skip)) << style << " round " << round;
    }
  }
}

// The negative control: replacing in each token by itself, as a naive stream would, must not pass for decoding.
TEST(StreamDetokenizer, DiffersFromDecodingTokenByToken) {
  const Tokenizer tokenizer = make(small_tokenizer());
  std::string naive;
  for (const std::int32_t id : bytes("\u00e9")) naive += tokenizer.decode(Ids{id});
  EXPECT_NE(naive, tokenizer.decode(bytes("\u00e9")));
}

// A model's vocabulary may be padded: an id that the tokenizer lacks can be chosen, and must not end the answer.
TEST(StreamDetokenizer, IdsWithoutATokenStandForNoText) {
  StreamDetokenizer stream(make(small_tokenizer()));
  EXPECT_EQ(stream.push('a') + stream.push(256) + stream.push(1 << 20) + stream.push('b'), "ab");
  EXPECT_THROW(make(small_tokenizer()).decode(Ids{256}), Error);
}

}  // namespace
}  // namespace reprofuse::text
