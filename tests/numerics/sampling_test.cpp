#include "numerics/sampling.hpp"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <vector>

namespace reprofuse {
namespace {

__extension__ using Wide = unsigned __int128;

TEST(Sampling, MultiplyHighIsTheUpperHalfOfTheProduct) {
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::uint64_t a = philox(1, i, 0) >> (i % 64), b = philox(1, i, 1) >> (i / 64 % 64);
    ASSERT_EQ(sampling::multiply_high(a, b), static_cast<std::uint64_t>(Wide{a} * b >> 64)) << a << " " << b;
  }
  EXPECT_EQ(sampling::multiply_high(~0ULL, ~0ULL), ~0ULL - 1);
}

// top_p as a fraction of integers, and the least integer at or above the product.
std::uint64_t nucleus_by_definition(float top_p, std::uint64_t total) {
  int exponent = 0;
  const auto significand = static_cast<std::uint64_t>(std::ldexp(std::frexp(top_p, &exponent), 24));
  const int shift = 24 - exponent;
  const Wide product = Wide{total} * significand;
  if (shift >= 127) return 1;
  const Wide divisor = Wide{1} << shift;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>((product + divisor - 1) / divisor));
}

TEST(Sampling, NucleusWeightIsExact) {
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t total = (std::uint64_t{1} << 40) + (philox(2, i, 0) >> (2 + i % 22));
    const float top_p = std::ldexp(static_cast<float>(philox(2, i, 1) >> 40), -24 - static_cast<int>(i % 80));
    ASSERT_EQ(sampling::nucleus_weight(top_p, total), nucleus_by_definition(top_p, total)) << top_p << " " << total;
  }
  constexpr std::uint64_t kTotal = (std::uint64_t{1} << 62) - 1;
  for (const float top_p : {1.0F, 0.5F, 0x1p-1F + 0x1p-24F, 0.9F, 0x1p-62F, 0x1p-63F, 0x1.fffffep-64F, 0x1p-149F})
    EXPECT_EQ(sampling::nucleus_weight(top_p, kTotal), nucleus_by_definition(top_p, kTotal)) << top_p;
  EXPECT_EQ(sampling::nucleus_weight(0.0F, kTotal), 1U);
  EXPECT_EQ(sampling::nucleus_weight(1.0F, kTotal), kTotal);
}

TEST(Sampling, KeyOrdersByLogitThenById) {
  const std::vector<float> ascending = {-FLT_MAX, -1.5F, -FLT_MIN, -0x1p-149F, 0.0F, 0x1p-149F, FLT_MIN, 1.0F, FLT_MAX};
  for (std::size_t i = 1; i < ascending.size(); ++i)
    EXPECT_GT(sampling::order_key(ascending[i], sampling::kMaxVocabulary - 1),
              sampling::order_key(ascending[i - 1], 0));
  EXPECT_GT(sampling::order_key(1.0F, 4), sampling::order_key(1.0F, 5));
  EXPECT_EQ(sampling::order_key(-0.0F, 7), sampling::order_key(0.0F, 7));
  for (const std::uint32_t id : {0U, 1U, 128'255U, static_cast<std::uint32_t>(sampling::kMaxVocabulary - 1)})
    EXPECT_EQ(sampling::id_of(sampling::order_key(-3.0F, id)), id);
}

TEST(Sampling, WeightsAreFortyBitsTruncated) {
  EXPECT_EQ(sampling::weight_of(1.0F), std::uint64_t{1} << 40);
  EXPECT_EQ(sampling::weight_of(0x1p-40F), 1U);
  EXPECT_EQ(sampling::weight_of(0x1.fffffep-40F), 1U);
  EXPECT_EQ(sampling::weight_of(0x1.fffffep-41F), 0U);
  EXPECT_EQ(sampling::weight_of(0.0F), 0U);
  EXPECT_EQ(sampling::weight_of(0x1.fffffep-1F), (std::uint64_t{1} << 40) - (std::uint64_t{1} << 16));
}

TEST(Sampling, LogprobOfOneCertainTokenIsZero) {
  EXPECT_EQ(float_bits(sampling::log_total(std::uint64_t{1} << 40)), 0U);
  EXPECT_EQ(sampling::logprob(3.0F, 3.0F, 0.0F), 0.0F);
}

TEST(Sampling, PenaltyPushesTowardsLessLikely) {
  EXPECT_EQ(sampling::penalized(3.0F, 1.5F), 2.0F);
  EXPECT_EQ(sampling::penalized(-3.0F, 1.5F), -4.5F);
  EXPECT_EQ(sampling::penalized(0.0F, 1.5F), 0.0F);
}

}  // namespace
}  // namespace reprofuse
