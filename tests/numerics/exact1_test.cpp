// The numbers of exact-1: exponents of rows, snapped operands, their digits, and the way back to binary32.
#include "numerics/exact1.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace reprofuse::exact1 {
namespace {

constexpr std::int32_t kMaxActivation = 127 * 65793;  // three digits of 127

// Every exponent with the fractions around which something happens: the ends, the middle, and the carry.
std::vector<float> row_maxima() {
  std::vector<float> maxima;
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent)
    for (const std::uint32_t fraction :
         {0U, 1U, 0x400000U, 0x7efefdU, 0x7efefeU, 0x7efeffU, 0x7eff00U, 0x7ffffeU, 0x7fffffU})
      maxima.push_back(float_from_bits(exponent << 23 | fraction));
  return maxima;
}

// As NUMERICS.md says it: from the least exponent upwards, the first at which the largest magnitude fits. binary64
// holds every product exactly.
int least_exponent(float max, int bits, double limit, bool rounded) {
  for (int e = kMinExponent;; ++e) {
    const double scaled = std::ldexp(static_cast<double>(max), bits - e);
    if ((rounded ? std::nearbyint(scaled) : scaled) <= limit) return e;
  }
}

TEST(Exact1, TheExponentOfARowIsTheLeastThatItsLargestMagnitudeFits) {
  const double below = std::nextafter(0x1p22, 0.0);  // a weight is below 2^22 before it is rounded
  for (const float max : row_maxima()) {
    const std::uint32_t bits = float_bits(max);
    ASSERT_EQ(activation_exponent(bits), least_exponent(max, kActivationBits, kMaxActivation, true)) << max;
    ASSERT_EQ(weight_exponent(bits), least_exponent(max, kWeightBits, below, false)) << max;
  }
}

TEST(Exact1, ARowOfZerosHasTheLeastExponent) {
  EXPECT_EQ(activation_exponent(0), kMinExponent);
  EXPECT_EQ(weight_exponent(0), kMinExponent);
}

// Scales are powers of two among the normal numbers, whatever the row: multiplying by one cannot lose it.
TEST(Exact1, EveryScaleIsANormalNumber) {
  for (const float max : row_maxima()) {
    const int x = activation_exponent(float_bits(max));
    const int w = weight_exponent(float_bits(max));
    ASSERT_EQ(activation_scale(x), std::ldexp(1.0, kActivationBits - x)) << max;
    ASSERT_EQ(weight_scale(w), std::ldexp(1.0, kWeightBits - w)) << max;
    ASSERT_TRUE(std::isnormal(activation_scale(x)) && std::isnormal(weight_scale(w))) << max;
  }
}

TEST(Exact1, SnappingRoundsTiesToEvenAndStaysWithinTheDigits) {
  for (const float max : row_maxima()) {
    const int x = activation_exponent(float_bits(max));
    const int w = weight_exponent(float_bits(max));
    for (const float part : {1.0F, 0.75F, 0.5F, 0x1.8p-21F, 0x1.8p-22F, 0x1p-23F, 0x1p-40F, 0.0F})
      for (const float value : {max * part, -max * part}) {
        const auto exact = static_cast<double>(value);
        const std::int32_t activation = snap_activation(value, activation_scale(x));
        ASSERT_EQ(activation, std::nearbyint(std::ldexp(exact, kActivationBits - x))) << value << " of " << max;
        ASSERT_LE(std::abs(activation), kMaxActivation) << value << " of " << max;
        const std::uint32_t snapped = snap_weight(value, weight_scale(w));
        ASSERT_EQ(weight_integer(snapped), std::nearbyint(std::ldexp(exact, kWeightBits - w)))
            << value << " of " << max;
        ASSERT_EQ(snapped & 0xffffffU, static_cast<std::uint32_t>(weight_integer(snapped) + kWeightBias));
      }
  }
}

// Three digits: the middle and the low one of an activation carry into the next, those of a weight are its bytes.
TEST(Exact1, ATermIsTheSumOfEightProductsOfDigits) {
  for (const std::int32_t x : {kMaxActivation, -kMaxActivation, -126 * 65536 - 128 * 257, 0x123480, -1, 0, 127})
    for (const std::int32_t w : {1 << 22, -(1 << 22), (1 << 22) - 1, 0x2aff55, -0x155501, -1, 0, 255}) {
      const std::int32_t x2 = activation_low(x);
      const std::int32_t x1 = activation_low((x - x2) / 256);
      const std::int32_t x0 = ((x - x2) / 256 - x1) / 256;
      ASSERT_LE(std::abs(x0), 127) << x;
      const auto bytes = static_cast<std::uint32_t>(w + kWeightBias);
      const std::int64_t w2 = bytes & 0xff, w1 = bytes >> 8 & 0xff, w0 = bytes >> 16;
      const std::int64_t products = (x0 * w0 << 32) + ((x0 * w1 + x1 * w0) << 24) +
                                    ((x0 * w2 + x1 * w1 + x2 * w0) << 16) + ((x1 * w2 + x2 * w1) << 8);
      EXPECT_EQ(term(x, w), products - std::int64_t{x} * kWeightBias) << x << " times " << w;
      EXPECT_EQ(term(x, w), std::int64_t{x} * w - x2 * w2);
    }
}

// Kernels add X (W + 2^22), which is never smaller in magnitude than a term can be, so the limit is theirs.
TEST(Exact1, TheLargestSumsFitInto64Bits) {
  constexpr std::int64_t kLow = std::int64_t{128} * 255;
  constexpr std::int64_t kTerm = std::int64_t{kMaxActivation} * (std::int64_t{2} << kWeightBits) + kLow;
  EXPECT_LE(kTerm, INT64_MAX / kMaxTerms);
  EXPECT_GT(kTerm, INT64_MAX / (2 * kMaxTerms)) << "and twice as many would not";
}

// The sum is rounded to 24 bits; scaling it is exact, or rounds once more where the result is subnormal.
TEST(Exact1, AResultIsTheRoundedSumScaled) {
  for (const std::int64_t sum :
       {std::int64_t{1}, std::int64_t{3}, (std::int64_t{1} << 24) + 1, (std::int64_t{1} << 61) + 12345, INT64_MAX / 3})
    for (const std::int64_t signed_sum : {sum, -sum})
      for (const auto& [x, w] : {std::pair{0, 0}, {-103, -103}, {129, 128}, {129, -103}, {-103, 20}, {-60, -60}}) {
        const double rounded = static_cast<double>(static_cast<float>(signed_sum));
        const auto expected = static_cast<float>(std::ldexp(rounded, x + w - 45));
        EXPECT_EQ(float_bits(result(signed_sum, x, w)), float_bits(expected)) << signed_sum << " " << x << " " << w;
      }
}

TEST(Exact1, ASumOfZeroIsPlusZeroAndANegativeOneThatUnderflowsIsMinusZero) {
  EXPECT_EQ(float_bits(result(0, -103, -103)), 0U);
  EXPECT_EQ(float_bits(result(0, 129, 128)), 0U);
  EXPECT_EQ(float_bits(result(-1, -103, -103)), 0x80000000U);
}

}  // namespace
}  // namespace reprofuse::exact1
