#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "reprofuse/error.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {
namespace {

TEST(BitDifference, ComparesWordsAndNotValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {0.0F, nan, 1.0F};
  const std::vector<float> b = {-0.0F, nan, 1.0F};
  const auto found = first_difference({a.data(), 1, 3, 3}, {b.data(), 1, 3, 3});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->description(), "1 of 3 values differ, the first at row 0 column 0: 0x00000000, expected 0x80000000");
  EXPECT_FALSE(first_difference({a.data(), 1, 3, 3}, {a.data(), 1, 3, 3}).has_value());
}

TEST(BitDifference, CountsAllAndPlacesTheFirstWhateverTheStrides) {
  const std::vector<float> a = {1, 2, 99, 3, 4, 99, 5, 6, 99};  // [3, 2], stride 3
  const std::vector<float> b = {1, 2, 3, 7, 7, 7};              // [3, 2]
  const auto found = first_difference({a.data(), 3, 2, 3}, {b.data(), 3, 2, 2});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->count, 3);
  EXPECT_EQ(found->row, 1);
  EXPECT_EQ(found->column, 1);
}

TEST(BitDifference, RefusesOtherShapes) {
  const std::vector<float> a = {1, 2};
  EXPECT_THROW(first_difference({a.data(), 1, 2, 2}, {a.data(), 2, 1, 1}), Error);
}

}  // namespace
}  // namespace reprofuse::study
