#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>

#include "numerics/float_ops.hpp"

namespace reprofuse {
namespace {

// A 16-bit float by its definition: sign, biased exponent, fraction.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias - fraction_bits)
                               : std::ldexp(fraction + (1U << fraction_bits), exponent - bias - fraction_bits);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(Widen, EveryFiniteBf16IsExact) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7f80U) == 0x7f80U) continue;
    const float wide = widen_bf16(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(static_cast<double>(wide), value_of(bits, 8, 7)) << std::hex << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << std::hex << bits;
  }
}

TEST(Widen, EveryFiniteF16IsExact) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00U) == 0x7c00U) continue;
    const float wide = widen_f16(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(static_cast<double>(wide), value_of(bits, 5, 10)) << std::hex << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << std::hex << bits;
  }
}

TEST(Widen, InfinitiesAndNansStayWhatTheyAre) {
  EXPECT_EQ(widen_f16(0x7c00), INFINITY);
  EXPECT_EQ(widen_f16(0xfc00), -INFINITY);
  EXPECT_EQ(widen_bf16(0x7f80), INFINITY);
  for (const std::uint16_t nan : {0x7c01, 0x7e00, 0xfdff}) EXPECT_TRUE(std::isnan(widen_f16(nan)));
  for (const std::uint16_t nan : {0x7f81, 0x7fc0, 0xffff}) EXPECT_TRUE(std::isnan(widen_bf16(nan)));
}

TEST(Widen, FiniteBitsAgreeWithTheLibraryAtEveryExponent) {
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (const std::uint32_t fraction : {0U, 1U, 0x400000U, 0x7fffffU})
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        const auto value = std::bit_cast<float>(sign | exponent << 23 | fraction);
        ASSERT_EQ(is_finite_bits(value), std::isfinite(value));
      }
}

TEST(Widen, RoundingForACacheKeepsFiniteValuesFinite) {
  constexpr float kLargest = 0x1.fep+127F;
  for (const float sign : {1.0F, -1.0F}) {
    for (const float value : {FLT_MAX, 0x1.ffp+127F, kLargest})
      EXPECT_EQ(widen_bf16(round_bf16_finite(sign * value)), sign * kLargest) << value;
    EXPECT_EQ(widen_bf16(round_bf16(sign * FLT_MAX)), sign * INFINITY);
    EXPECT_EQ(widen_bf16(round_bf16_finite(sign * INFINITY)), sign * INFINITY);
  }
  for (const float value : {0x1.ffp-1F, 0x1.fefffep+126F, 0x1.01p+0F, 0x1.03p+0F, 0x1p-149F})
    EXPECT_EQ(round_bf16_finite(value), round_bf16(value)) << value;
}

TEST(Widen, ANaNStaysOneInBf16) {
  for (const std::uint32_t bits : {0x7fffffffU, 0xffffffffU, 0x7f800001U, 0xff80ffffU, 0x7fc00000U, 0x7fff8000U}) {
    const auto value = std::bit_cast<float>(bits);
    for (const std::uint32_t rounded : {round_bf16(value), round_bf16_finite(value)}) {
      EXPECT_TRUE(std::isnan(widen_bf16(rounded))) << std::hex << bits;
      EXPECT_EQ(rounded >> 15, bits >> 31) << "with its sign";
    }
  }
}

}  // namespace
}  // namespace reprofuse
