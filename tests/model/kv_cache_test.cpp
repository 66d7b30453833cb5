// Pages of the cache: who holds them, and that they come back.
#include "model/kv_cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "study/seeded/models.hpp"
#include "support/messages.hpp"

namespace reprofuse::model {
namespace {

const checkpoint::ModelConfig kConfig = study::small_config(checkpoint::Architecture::kLlama);

std::string cache_error(std::int64_t pages, std::int32_t page_size) {
  return error_of([&] { const KvCache cache(Context::cpu(), kConfig, pages, page_size); });
}

TEST(KvCache, EveryPageIsHandedOutOnceAndComesBack) {
  KvCache cache(Context::cpu(), kConfig, 5, 16);
  std::set<std::int32_t> taken;
  while (const auto page = cache.take_page()) taken.insert(*page);
  EXPECT_EQ(taken, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(cache.free_pages(), 0);
  for (const std::int32_t page : taken) cache.give_back(page);
  EXPECT_EQ(cache.free_pages(), 5);
}

TEST(KvCache, LayersLieApartAndHaveTheSizeThatIsStated) {
  for (const char* numerics : {"fma-1", "fma-1-kv16"}) {
    const Context context = Context::cpu(numerics);
    const KvCache cache(context, kConfig, 3, 32);
    const std::int64_t page_bytes = KvCache::bytes_per_page(context, kConfig, 32);
    EXPECT_EQ(page_bytes, 2 * 3 * 2 * 16 * 32 * (std::string(numerics) == "fma-1" ? 4 : 2)) << numerics;
    const auto* first = static_cast<const std::byte*>(cache.layer(0).keys);
    const auto* second = static_cast<const std::byte*>(cache.layer(1).keys);
    EXPECT_EQ(second - first, 3 * page_bytes / 2 / 3) << numerics;
  }
}

TEST(KvCache, SizesThatMakeNoSenseAreErrors) {
  EXPECT_EQ(cache_error(1, 8), "a page of 8 positions is not a power of two of at least 16");
  EXPECT_EQ(cache_error(1, 48), "a page of 48 positions is not a power of two of at least 16");
  EXPECT_EQ(cache_error(1, -64), "a page of -64 positions is not a power of two of at least 16");
  EXPECT_EQ(cache_error(0, 64), "a cache of 0 pages; it takes 1 to 2147483647");
}

TEST(Sequence, TakesPagesAsItGrowsAndGivesThemBack) {
  KvCache cache(Context::cpu(), kConfig, 4, 16);
  {
    Sequence sequence(cache);
    EXPECT_TRUE(sequence.reserve(16));
    EXPECT_EQ(sequence.pages().size(), 1U);
    sequence.advance(16);
    EXPECT_TRUE(sequence.reserve(0));
    EXPECT_EQ(cache.free_pages(), 3);
    EXPECT_TRUE(sequence.reserve(17));
    EXPECT_EQ(sequence.pages().size(), 3U);
    EXPECT_TRUE(sequence.reserve(17)) << "what is reserved already is not taken twice";
    EXPECT_EQ(cache.free_pages(), 1);
    sequence.clear();
    EXPECT_EQ(sequence.length(), 0);
    EXPECT_EQ(cache.free_pages(), 4);
    EXPECT_TRUE(sequence.reserve(64));
  }
  EXPECT_EQ(cache.free_pages(), 4) << "the end of a sequence gives its pages back";
}

TEST(Sequence, AReservationThatFailsTakesNothing) {
  KvCache cache(Context::cpu(), kConfig, 4, 16);
  Sequence one(cache);
  ASSERT_TRUE(one.reserve(20));
  Sequence other(cache);
  EXPECT_FALSE(other.reserve(33));
  EXPECT_EQ(cache.free_pages(), 2);
  EXPECT_TRUE(other.pages().empty());
  EXPECT_TRUE(other.reserve(32));
  EXPECT_FALSE(one.reserve(33));
  EXPECT_EQ(one.pages().size(), 2U);
}

TEST(Sequence, TwoHoldNoPageInCommon) {
  KvCache cache(Context::cpu(), kConfig, 6, 16);
  Sequence one(cache);
  Sequence other(cache);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(one.reserve(16));
    one.advance(16);
    ASSERT_TRUE(other.reserve(16));
    other.advance(16);
  }
  std::set<std::int32_t> pages(one.pages().begin(), one.pages().end());
  pages.insert(other.pages().begin(), other.pages().end());
  EXPECT_EQ(pages.size(), 6U);
}

TEST(Sequence, AMovedOneTakesItsPagesAlong) {
  KvCache cache(Context::cpu(), kConfig, 2, 16);
  {
    Sequence from(cache);
    ASSERT_TRUE(from.reserve(32));
    from.advance(32);
    const Sequence to(std::move(from));
    EXPECT_EQ(to.length(), 32);
    EXPECT_EQ(to.pages().size(), 2U);
  }
  EXPECT_EQ(cache.free_pages(), 2) << "each page came back once";
}

}  // namespace
}  // namespace reprofuse::model
