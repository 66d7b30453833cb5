#include "base/bounded_cache.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprofuse {
namespace {

// A value that can be moved and not copied, and that tells when it goes.
class Held {
 public:
  Held(int key, std::vector<int>& dropped)
      : key_(new int(key), [&dropped](const int* gone) {
          dropped.push_back(*gone);
          delete gone;
        }) {}
  Held(Held&&) noexcept = default;
  Held& operator=(Held&&) noexcept = default;
  int key() const { return *key_; }

 private:
  std::unique_ptr<int, std::function<void(const int*)>> key_;
};

class BoundedCacheTest : public ::testing::Test {
 protected:
  int use(int key) {
    return cache_
        .get(key,
             [&] {
               made_.push_back(key);
               return Held(key, dropped_);
             })
        .key();
  }

  std::vector<int> made_;
  std::vector<int> dropped_;
  BoundedCache<int, Held> cache_{3};  // the last: what it holds goes before the list of what went
};

TEST_F(BoundedCacheTest, AValueIsMadeOnceWhileThereIsRoom) {
  for (const int key : {1, 2, 3, 3, 1, 2}) EXPECT_EQ(use(key), key);
  EXPECT_EQ(made_, (std::vector{1, 2, 3}));
  EXPECT_TRUE(dropped_.empty());
  EXPECT_EQ(cache_.size(), 3U);
}

TEST_F(BoundedCacheTest, TheValueUsedLongestAgoMakesRoom) {
  for (const int key : {1, 2, 3, 1, 4}) EXPECT_EQ(use(key), key);  // 2 is the oldest use, though 1 was made before it
  EXPECT_EQ(dropped_, (std::vector{2}));
  EXPECT_EQ(use(2), 2);
  EXPECT_EQ(dropped_, (std::vector{2, 3}));
  EXPECT_EQ(made_, (std::vector{1, 2, 3, 4, 2}));
}

TEST_F(BoundedCacheTest, NeverHoldsMoreThanItsCapacity) {
  for (int key = 0; key < 100; ++key) {
    use(key);
    EXPECT_LE(made_.size() - dropped_.size(), 3U);
  }
  EXPECT_EQ(cache_.size(), 3U);
}

TEST_F(BoundedCacheTest, MakesRoomBeforeItMakesAValue) {
  for (const int key : {1, 2, 3}) use(key);
  cache_.get(4, [&] {
    EXPECT_EQ(dropped_, (std::vector{1}));
    return Held(4, dropped_);
  });
}

TEST_F(BoundedCacheTest, AKeyWhoseValueCouldNotBeMadeIsAbsent) {
  for (const int key : {1, 2, 3}) use(key);
  EXPECT_THROW(cache_.get(4, []() -> Held { throw std::runtime_error("no value"); }), std::runtime_error);
  EXPECT_EQ(cache_.size(), 2U);
  for (const int key : {4, 2, 3}) EXPECT_EQ(use(key), key);
  EXPECT_EQ(made_, (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(dropped_, (std::vector{1}));
}

TEST(BoundedCache, RefusesToHoldNothing) {
  try {
    BoundedCache<int, int> cache(0);
    FAIL() << "a cache of no values was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(std::string(error.what()), "a cache with room for 0 values");
  }
}

}  // namespace
}  // namespace reprofuse
