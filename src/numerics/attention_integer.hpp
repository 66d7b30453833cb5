// The numbers of attention in integers: of two digits by contract int16-1, of three by exact-2. Loops and kernels of
// both take one of these as a parameter. For host and device code alike; changing a number here makes a new contract.
#pragma once

#include <cstdint>

#include "numerics/int16.hpp"

namespace reprofuse {

// X = 256 * upper + lowest, lowest in [-128, 127].
REPROFUSE_HOST_DEVICE inline std::int32_t upper_digits(std::int32_t x) {
  return int16::high_digit(x);
}

REPROFUSE_HOST_DEVICE inline std::int32_t lowest_digit(std::int32_t x) {
  return int16::low_digit(x);
}

// c0 + c1 x + ... from its kFrom-th step on, by the coefficients of N, or by half of each.
template <typename N, bool kHalf = false, int kFrom = 0>
REPROFUSE_HOST_DEVICE inline float exp2_polynomial(float x) {
  constexpr float kCoefficient = N::exp2_coefficient(kFrom) * (kHalf ? 0.5F : 1.0F);
  if constexpr (kFrom == N::kExp2Degree)
    return kCoefficient;
  else
    return fma_rn(exp2_polynomial<N, kHalf, kFrom + 1>(x), x, kCoefficient);
}

// int16-1: X = 256 x0 + x1.
struct TwoDigits {
  static constexpr int kDigits = 2;
  static constexpr float kSumBound = 0x1p+31F;  // no sum of products reaches it
  static constexpr int kMinWeightPower = int16::kMinWeightPower;
  // The weight of a value is its key's probability times the value's unit, as an integer: what multiplies the value.
  static constexpr float kMaxWeight = int16::kMaxWeight;
  static constexpr float kWeightOffset = int16::kRoundToInteger;  // a sum with it rounds a weight at the units place
  static constexpr std::uint32_t kUnsigned = 0x80;                // added, all digits but the first are unsigned bytes

  static constexpr int kExp2Degree = 4;
  REPROFUSE_HOST_DEVICE static constexpr float exp2_coefficient(int i) {
    constexpr float kAll[] = {1.0F, int16::kExp2C1, int16::kExp2C2, int16::kExp2C3, int16::kExp2C4};
    return kAll[i];
  }
  REPROFUSE_HOST_DEVICE static float exp2(float x) { return int16::exp2_nonpositive(x); }

  REPROFUSE_HOST_DEVICE static int unit_byte(std::uint32_t max_bits) { return int16::unit_byte(max_bits); }
  REPROFUSE_HOST_DEVICE static std::int32_t snap(float value, float inverse) { return int16::snap(value, inverse); }
  REPROFUSE_HOST_DEVICE static float score_factor(float scale, int query_unit) {
    return int16::score_factor(scale, query_unit);
  }

  // The unit that weights count in is that of the block's largest values.
  static constexpr bool kFitsWeights = false;
  REPROFUSE_HOST_DEVICE static float weight_factor(int value_unit, int weight_unit) {
    return int16::weight_factor(value_unit, weight_unit);
  }
  REPROFUSE_HOST_DEVICE static std::int32_t weight_of(float p, float factor) { return int16::weight_of(p, factor); }
  REPROFUSE_HOST_DEVICE static float value_scale(int weight_unit) { return int16::value_scale(weight_unit); }

  // An exact sum of products, less those that the contract leaves out.
  struct Sum {
    std::int32_t terms = 0;
    void add(std::int32_t x, std::int32_t w) { terms += int16::term(x, w); }
    float value() const { return int16::to_float(terms); }
  };
};

// exact-2: X = 65536 x0 + 256 x1 + x2, |X| <= 127 * 65793. Of nine products of digits eight count, in two sums.
struct ThreeDigits {
  static constexpr int kDigits = 3;
  static constexpr float kSumBound = 0x1p+47F;
  static constexpr int kMinWeightPower = -25;
  static constexpr float kMaxWeight = 127 * 65536;
  static constexpr float kWeightOffset = 0x1p+23F;  // weights are not negative, and need 23 bits
  static constexpr std::uint32_t kUnsigned = 0x8080;

  // 2^x for |x| <= 1/2, relative error 2^-23.4 before rounding: least squares, weighted until even.
  static constexpr int kExp2Degree = 5;
  REPROFUSE_HOST_DEVICE static constexpr float exp2_coefficient(int i) {
    constexpr float kAll[] = {1.0F, 0x1.62e42ap-1F, 0x1.ebf9c2p-3F, 0x1.c6b6d8p-5F, 0x1.3ce8aep-7F, 0x1.5bda5cp-10F};
    return kAll[i];
  }
  // For x <= 0; 2^-126 below -126. A result is a normal number, at most 1. A NaN gives anything.
  REPROFUSE_HOST_DEVICE static float exp2(float x) {
    x = x > int16::kExp2Min ? x : int16::kExp2Min;
    const float shifted = x + int16::kExp2Shift;
    const float r = x - (shifted - int16::kExp2Shift);                                    // exact
    return exp2_polynomial<ThreeDigits>(r) * float_from_bits(float_bits(shifted) << 23);  // exact
  }

  // The least unit with which the largest magnitude fits: the constant carries just where it would not.
  REPROFUSE_HOST_DEVICE static int unit_byte(std::uint32_t max_bits) {
    if (max_bits >= kInfinityBits) return int16::kNotFinite;
    const int byte = static_cast<int>((max_bits + 0x10101U) >> 23) - 22;
    return byte < int16::kMinUnit ? int16::kMinUnit : byte;
  }
  // rint(value * inverse), ties to even; for finite values and their own unit. A magnitude needs 23 bits: its sum with
  // 2^23 rounds at the units place.
  REPROFUSE_HOST_DEVICE static std::int32_t snap(float value, float inverse) {
    const float scaled = value * inverse;
    const float magnitude = scaled < 0 ? -scaled : scaled;
    const auto integer = static_cast<std::int32_t>(float_bits(magnitude + 0x1p+23F) - float_bits(0x1p+23F));
    return scaled < 0 ? -integer : integer;
  }
  REPROFUSE_HOST_DEVICE static float score_factor(float scale, int query_unit) {
    return int16::score_factor(scale, query_unit);  // products count in 256 here, too
  }

  // The unit that weights count in fits the largest product of a probability and its value's unit: `fit` is the largest
  // sum of log2 of both, from the largest unit on. So a key of much probability and small values costs no digits.
  static constexpr bool kFitsWeights = true;
  static constexpr float kMaxFit = 64;
  REPROFUSE_HOST_DEVICE static float fit_of(float log2_probability, int value_unit, int largest_unit) {
    return log2_probability + static_cast<float>(value_unit - largest_unit);
  }
  REPROFUSE_HOST_DEVICE static int weight_unit(int largest_unit, float fit) {
    if (largest_unit == int16::kNotFinite) return largest_unit;
    fit = fit > -kMaxFit ? fit : -kMaxFit;  // also a NaN, of scores that are an error
    fit = fit < 0 ? fit : 0;
    const float rounded = fit + int16::kRoundToInteger;  // and up, where that was down
    const int up = rounded - int16::kRoundToInteger < fit ? 1 : 0;
    const int unit =
        largest_unit + up + static_cast<std::int32_t>(float_bits(rounded) - float_bits(int16::kRoundToInteger));
    return unit < int16::kMinUnit ? int16::kMinUnit : unit;
  }
  REPROFUSE_HOST_DEVICE static float weight_factor(int value_unit, int weight_unit) {
    const int apart = value_unit - weight_unit;
    return kMaxWeight * int16::power_of_two(apart < kMinWeightPower ? kMinWeightPower : apart);
  }
  REPROFUSE_HOST_DEVICE static std::int32_t weight_of(float p, float factor) {
    return static_cast<std::int32_t>(float_bits(fma_rn(p, factor, kWeightOffset)) - float_bits(kWeightOffset));
  }
  // A weighted sum counts in this: 256 * unit / (127 * 65536).
  REPROFUSE_HOST_DEVICE static float value_scale(int weight_unit) {
    return int16::unit_value(weight_unit) * 0x1.020408p-15F;
  }

  // What a term adds to the trailing sum: 256 (x0 w2 + x1 w1 + x2 w0) + x1 w2 + x2 w1. To the leading one it adds
  // int16::term() of the upper digits. The product of the lowest digits is left out.
  static std::int32_t trailing_term(std::int32_t x, std::int32_t w) {
    const std::int32_t upper_x = upper_digits(x), upper_w = upper_digits(w);
    const std::int32_t x0 = upper_digits(upper_x), x1 = lowest_digit(upper_x), x2 = lowest_digit(x);
    const std::int32_t w0 = upper_digits(upper_w), w1 = lowest_digit(upper_w), w2 = lowest_digit(w);
    return 256 * (x0 * w2 + x1 * w1 + x2 * w0) + x1 * w2 + x2 * w1;
  }
  struct Sum {
    std::int32_t leading = 0;
    std::int64_t trailing = 0;
    void add(std::int32_t x, std::int32_t w) {
      leading += int16::term(upper_digits(x), upper_digits(w));
      trailing += trailing_term(x, w);
    }
    float value() const { return value_of(int16::to_float(leading), int16::to_float(trailing)); }
  };
  REPROFUSE_HOST_DEVICE static float value_of(float leading, float trailing) {
    return fma_rn(leading, 65536.0F, trailing);
  }
};

// 128 trailing terms fit 32 bits: a block of keys, or a head of up to kNarrowDims elements. What a score's sums come to
// is below kSumBound.
inline constexpr std::int64_t kMaxTrailingTerm = 256 * (2 * 127 * 128 + 128 * 128) + 2 * 128 * 128;
inline constexpr int kNarrowDims = 128;
static_assert(kNarrowDims * kMaxTrailingTerm < std::int64_t{1} << 31 && int16::kKeyBlock <= kNarrowDims);
static_assert(int16::kMaxScoreTerms * (65536 * int16::kMaxTerm + kMaxTrailingTerm) < std::int64_t{1} << 47);

}  // namespace reprofuse
