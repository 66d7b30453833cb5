// The parts of an engine that need no model: prefixes, guesses, and texts that end.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/engine.hpp"
#include "engine/engine_case.hpp"
#include "engine/job.hpp"
#include "engine/prefix_cache.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::engine {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens guess(const Tokens& text, std::int64_t count) {
  const auto guesses = guess_next(text, count);
  return {guesses.begin(), guesses.end()};
}

TEST(PromptLookup, GuessesWhatFollowedTheLastThreeOrTwoTokens) {
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 1, 2, 3}, 3), (Tokens{4, 5, 1}));
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 1, 2, 3}, 1), (Tokens{4}));
  EXPECT_EQ(guess({9, 2, 3, 4, 5, 1, 2, 3}, 2), (Tokens{4, 5})) << "two tokens match";
  EXPECT_EQ(guess({1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3}, 1), (Tokens{8})) << "the last place counts";
  EXPECT_EQ(guess({1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3}, 1), (Tokens{4})) << "three tokens rather than two";
  EXPECT_EQ(guess({5, 5, 5, 5}, 4), (Tokens{5})) << "it may overlap, but nothing beyond the text is known";
  EXPECT_EQ(guess({1, 2, 3, 4}, 4), Tokens{});
  EXPECT_EQ(guess({1, 2}, 4), Tokens{});
  EXPECT_EQ(guess({1}, 4), Tokens{});
}

class PrefixCacheTest : public testing::Test {
 protected:
  static constexpr std::int32_t kPage = 16;

  // A sequence as if these tokens had been computed.
  model::Sequence computed(const Tokens& text) {
    model::Sequence sequence(cache_);
    const auto size = static_cast<std::int64_t>(text.size());
    prefixes_.make_free(cache_.pages_for(size));
    EXPECT_TRUE(sequence.reserve(size));
    sequence.advance(size);
    PageKeys keys(kPage);
    prefixes_.remember(sequence, keys.first(size / kPage, text), 0);
    return sequence;
  }
  std::int64_t found(const Tokens& text) {
    model::Sequence sequence(cache_);
    PageKeys keys(kPage);
    return prefixes_.start(sequence, keys.first(static_cast<std::int64_t>(text.size()) / kPage, text));
  }
  static Tokens text(std::int32_t first, std::size_t size) {
    Tokens ids(size);
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }

  model::KvCache cache_{Context::cpu(), study::small_config(checkpoint::Architecture::kLlama), 6, kPage};
  PrefixCache prefixes_{cache_};
};

TEST_F(PrefixCacheTest, FindsTheLongestStartAndSharesItsPages) {
  {
    const model::Sequence first = computed(text(0, 40));
    EXPECT_EQ(cache_.pages_in_use(), 3);
    model::Sequence second(cache_);
    PageKeys keys(kPage);
    EXPECT_EQ(prefixes_.start(second, keys.first(2, text(0, 33))), 2);
    EXPECT_EQ(second.length(), 32);
    EXPECT_EQ(second.pages()[0], first.pages()[0]);
    EXPECT_EQ(cache_.pages_in_use(), 3);
  }
  EXPECT_EQ(cache_.pages_in_use(), 0);
  EXPECT_EQ(cache_.free_pages(), 4) << "two full pages are kept";
  Tokens other = text(0, 40);
  other[17] = 99;
  EXPECT_EQ(found(other), 1);
  other[0] = 99;
  EXPECT_EQ(found(other), 0) << "the second page is the same but comes after another first";
}

// Keys and values of a page depend on all tokens before it: equal tokens after another start are another page.
TEST_F(PrefixCacheTest, APageIsFoundOnlyAfterTheStartItWasComputedAfter) {
  Tokens one = text(0, 32);
  Tokens two = text(100, 32);
  computed(one);
  computed(two);
  Tokens mixed(two.begin(), two.begin() + kPage);
  mixed.insert(mixed.end(), one.begin() + kPage, one.end());
  EXPECT_EQ(found(mixed), 1) << "both of its pages are known, but the second after another first";
  EXPECT_EQ(found(one), 2);
}

// A job that starts with it takes it from the room that is left.
TEST_F(PrefixCacheTest, APageThatNobodyUsesIsRoomAndNotInUse) {
  const Tokens all = text(0, 48);
  PageKeys keys(kPage);
  const std::span<const PageKey> pages = keys.first(3, all);
  {
    const model::Sequence user = computed(all);
    EXPECT_EQ(prefixes_.pages_in_use(pages), 3);
  }
  EXPECT_EQ(prefixes_.pages_in_use(pages), 0);
  model::Sequence shorter(cache_);
  EXPECT_EQ(prefixes_.start(shorter, pages.first(1)), 1);
  EXPECT_EQ(prefixes_.pages_in_use(pages), 1) << "the others are kept, for nobody";
  EXPECT_EQ(cache_.pages_in_use(), 1);
}

TEST_F(PrefixCacheTest, APageThatWasDroppedIsNotFoundWhileAnotherTextIsInIt) {
  computed(text(0, 96));
  const model::Sequence other = computed(text(200, 96));
  EXPECT_EQ(cache_.pages_in_use(), 6);
  EXPECT_EQ(found(text(0, 96)), 0);
  EXPECT_EQ(found(text(200, 96)), 6);
}

TEST_F(PrefixCacheTest, MakesRoomByDroppingWhatWasUsedLongestAgo) {
  computed(text(0, 32));
  computed(text(100, 32));
  PageKeys keys(kPage);
  const Tokens first = text(0, 32);
  prefixes_.touch(keys.first(2, first));
  EXPECT_TRUE(prefixes_.make_free(4));
  EXPECT_EQ(found(text(100, 32)), 0);
  EXPECT_EQ(found(first), 2);
  EXPECT_TRUE(prefixes_.make_free(5)) << "the end of a text goes before its start";
  EXPECT_EQ(found(first), 1);
  const model::Sequence in_use = computed(text(200, 32));
  EXPECT_FALSE(prefixes_.make_free(5)) << "pages in use stay";
  EXPECT_EQ(found(text(200, 32)), 2);
}

class AnswerTextTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!bundled_tokenizer()) GTEST_SKIP() << "this build has no tokenizer";
  }
  // The pieces that come out, token by token, and what is left at the end.
  std::vector<std::string> pieces(const std::string& text, std::vector<std::string> stops, bool keep = false) {
    AnswerText answer(bundled_tokenizer(), std::move(stops), keep, true);
    std::vector<std::string> all;
    for (const char letter : text) {
      all.push_back(answer.push(bundled_tokenizer()->encode(std::string(1, letter), false).at(0)));
      if (answer.stopped_by()) break;
    }
    all.push_back(answer.flush());
    return all;
  }
};

TEST_F(AnswerTextTest, HoldsBackWhatMayBeTheStartOfAStopString) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("abc", {}), (Pieces{"a", "b", "c", ""}));
  EXPECT_EQ(pieces("abcd", {"cd"}), (Pieces{"a", "b", "", "", ""}));
  EXPECT_EQ(pieces("abcd", {"cd"}, true), (Pieces{"a", "b", "", "cd", ""}));
  EXPECT_EQ(pieces("acab", {"cd"}), (Pieces{"a", "", "ca", "b", ""}));
  EXPECT_EQ(pieces("ac", {"cd"}), (Pieces{"a", "", "c"}));
  EXPECT_EQ(pieces("aab", {"aac"}), (Pieces{"", "", "aab", ""}));
  EXPECT_EQ(pieces("aaac", {"aac"}), (Pieces{"", "", "a", "", ""}));
  for (const std::vector<std::string>& stops : {std::vector<std::string>{"c", "bc"}, {"bc", "c"}})
    EXPECT_EQ(pieces("abcx", stops), (Pieces{"a", "", "", ""})) << "the one that starts first";
}

}  // namespace
}  // namespace reprofuse::engine
