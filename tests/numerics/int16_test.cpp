// The functions of contract int16-1, and those that attention of exact-2 has in their place.
#include "numerics/int16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

#include "numerics/attention_integer.hpp"

namespace reprofuse::int16 {
namespace {

double integer_of(float value, int byte) {
  return std::nearbyint(std::ldexp(static_cast<double>(value), 127 - byte));
}

// Every exponent, and fractions around the one from which a unit is one larger.
TEST(Int16, TheUnitIsTheLeastWithWhichTheLargestFits) {
  for (std::uint32_t exponent = 0; exponent <= 254; ++exponent)
    for (const std::uint32_t fraction : {0U, 1U, 0x400000U, 0x7efefeU, 0x7efeffU, 0x7eff00U, 0x7eff01U, 0x7fffffU}) {
      const float value = float_from_bits(exponent << 23 | fraction);
      const int byte = unit_byte(float_bits(value));
      ASSERT_GE(byte, kMinUnit);
      ASSERT_LE(byte, 241);
      ASSERT_LE(integer_of(value, byte), kLargest) << value;
      if (byte > kMinUnit) {
        ASSERT_GT(integer_of(value, byte - 1), kLargest) << value;
      }
    }
  EXPECT_EQ(unit_byte(0x7f800000U), kNotFinite);
  EXPECT_EQ(unit_byte(0x7fc00000U), kNotFinite);
  EXPECT_TRUE(std::isinf(unit_value(kNotFinite)));
}

TEST(Int16, SnappingRoundsToTheNearestTiesToEven) {
  for (const int byte : {1, 100, 127, 238})
    for (std::int32_t half = -2 * kLargest; half <= 2 * kLargest; ++half) {
      const auto value = static_cast<float>(std::ldexp(half * 0.5, byte - 127));
      ASSERT_EQ(snap(value, inverse_unit(byte)), integer_of(value, byte)) << half;
    }
}

TEST(Int16, TermsAreTheProductWithoutThatOfLowDigits) {
  for (std::int32_t x = -kLargest; x <= kLargest; x += 113)
    for (std::int32_t w = -kLargest; w <= kLargest; w += 127) {
      ASSERT_EQ(256 * high_digit(x) + low_digit(x), x);
      ASSERT_LE(std::abs(high_digit(x)), 127);
      ASSERT_TRUE(low_digit(x) >= -128 && low_digit(x) <= 127);
      ASSERT_EQ(256 * std::int64_t{term(x, w)}, std::int64_t{x} * w - low_digit(x) * low_digit(w));
      ASSERT_LE(std::abs(std::int64_t{term(x, w)}), kMaxTerm);
    }
}

TEST(Int16, Exp2IsWithinItsErrorAndNeverAboveOne) {
  double worst = 0;
  for (std::int64_t i = 0; i <= 126 * 4096; ++i) {
    const auto x = static_cast<float>(-static_cast<double>(i) / 4096 * 0x1.fffffep-1);
    const float p = exp2_nonpositive(x);
    ASSERT_LE(p, 1.0F);
    ASSERT_GE(p, 0x1p-126F);
    worst = std::max(worst, std::fabs(p / std::exp2(static_cast<double>(x)) - 1));
  }
  EXPECT_LT(worst, 2.9e-6);
  EXPECT_GT(worst, 2.7e-6);  // four coefficients do not give more
  EXPECT_EQ(exp2_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp2_nonpositive(-1.0F), 0.5F);
  EXPECT_EQ(exp2_nonpositive(-126.0F), 0x1p-126F);
  EXPECT_EQ(exp2_nonpositive(-1e30F), 0x1p-126F);
  EXPECT_EQ(exp2_nonpositive(-INFINITY), 0x1p-126F);
}

TEST(Int16, WeightsAndTermsOfTheSumAreRoundedOnce) {
  for (const float p : {1.0F, 0.5F, 0x1.fffffep-1F, 0x1p-14F, 0x1p-16F, 0x1p-126F, 0.3F}) {
    EXPECT_EQ(sum_term(p), std::nearbyint(static_cast<double>(p) * 0x1p+23));
    for (const int apart : {0, -1, -15, -16, -17, -240})
      EXPECT_EQ(weight_of(p, weight_factor(241 + apart, 241)),
                std::nearbyint(std::ldexp(static_cast<double>(p) * 32512, std::max(apart, -16))))
          << p << " " << apart;
  }
  EXPECT_EQ(weight_of(1.0F, weight_factor(1, 241)), 0);
  EXPECT_EQ(weight_of(1.0F, weight_factor(225, 241)), 0);
  EXPECT_EQ(weight_of(1.0F, weight_factor(226, 241)), 1);
}

constexpr std::int32_t kMaxOfThree = 127 * 65793;

TEST(ThreeDigits, TheUnitIsTheLeastWithWhichTheLargestFits) {
  for (std::uint32_t exponent = 0; exponent <= 254; ++exponent)
    for (const std::uint32_t fraction : {0U, 1U, 0x400000U, 0x7efefdU, 0x7efefeU, 0x7efeffU, 0x7eff00U, 0x7fffffU}) {
      const float value = float_from_bits(exponent << 23 | fraction);
      const int byte = ThreeDigits::unit_byte(float_bits(value));
      ASSERT_GE(byte, kMinUnit);
      ASSERT_LE(byte, 233);
      ASSERT_LE(integer_of(value, byte), kMaxOfThree) << value;
      if (byte > kMinUnit) {
        ASSERT_GT(integer_of(value, byte - 1), kMaxOfThree) << value;
      }
      ASSERT_EQ(ThreeDigits::snap(value, inverse_unit(byte)), integer_of(value, byte)) << value;
      ASSERT_EQ(ThreeDigits::snap(-value, inverse_unit(byte)), -integer_of(value, byte)) << value;
    }
  EXPECT_EQ(ThreeDigits::unit_byte(0x7f800000U), kNotFinite);
}

TEST(ThreeDigits, SumsAreTheProductsWithoutThoseOfTheLowestDigits) {
  for (std::int32_t x = -kMaxOfThree; x <= kMaxOfThree; x += 30'011)
    for (std::int32_t w = -kMaxOfThree; w <= kMaxOfThree; w += 27'011) {
      ThreeDigits::Sum sum;
      sum.add(x, w);
      ASSERT_EQ(256 * (65536 * std::int64_t{sum.leading} + sum.trailing),
                std::int64_t{x} * w - lowest_digit(x) * lowest_digit(w));
      ASSERT_LE(std::abs(std::int64_t{sum.leading}), kMaxTerm);
      ASSERT_LE(std::abs(sum.trailing), kMaxTrailingTerm);
    }
}

TEST(ThreeDigits, Exp2IsWithinItsErrorAndNeverAboveOne) {
  double worst = 0;
  for (std::int64_t i = 0; i <= 126 * 4096; ++i) {
    const auto x = static_cast<float>(-static_cast<double>(i) / 4096 * 0x1.fffffep-1);
    const float p = ThreeDigits::exp2(x);
    ASSERT_LE(p, 1.0F);
    ASSERT_GE(p, 0x1p-126F);
    worst = std::max(worst, std::fabs(p / std::exp2(static_cast<double>(x)) - 1));
  }
  EXPECT_LT(worst, 2.0e-7);
  EXPECT_EQ(ThreeDigits::exp2(0.0F), 1.0F);
  EXPECT_EQ(ThreeDigits::exp2(-1.0F), 0.5F);
  EXPECT_EQ(ThreeDigits::exp2(-INFINITY), 0x1p-126F);
}

// The unit of weights: rounded up, no more than 64 places down, and such that the largest product has three digits.
TEST(ThreeDigits, WeightsFitTheirUnit) {
  for (const float fit : {0.0F, -0x1p-20F, -0.5F, -0x1.fffffep-1F, -1.0F, -1.5F, -63.25F, -64.0F, -100.0F}) {
    const int expected = 200 + std::max(-64, static_cast<int>(std::ceil(fit)));
    EXPECT_EQ(ThreeDigits::weight_unit(200, fit), expected) << fit;
    EXPECT_EQ(ThreeDigits::weight_unit(3, fit), std::max(1, expected - 197)) << fit;
    if (fit < -64.0F) continue;
    const float p = ThreeDigits::exp2(fit);
    const std::int32_t weight = ThreeDigits::weight_of(p, ThreeDigits::weight_factor(200, expected));
    EXPECT_EQ(weight, std::nearbyint(std::ldexp(static_cast<double>(p) * 8323072, 200 - expected))) << fit;
    EXPECT_LE(weight, kMaxOfThree);
  }
  EXPECT_EQ(ThreeDigits::weight_unit(kNotFinite, -3.0F), kNotFinite);
  EXPECT_EQ(ThreeDigits::weight_unit(200, std::nanf("")), 136);
  EXPECT_EQ(ThreeDigits::weight_of(1.0F, ThreeDigits::weight_factor(1, 200)), 0);
}

}  // namespace
}  // namespace reprofuse::int16
