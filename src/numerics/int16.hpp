// Contract int16-1: operands are 16-bit integers that share powers of two, their sums are exact integers. For host and
// device code alike; changing a number here makes a new contract.
#pragma once

#include <cstdint>

#include "base/math.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::int16 {

// Numbers that share a power of two, their unit, are integers X = rint(x / unit), |X| <= 127 * 257: two signed 8-bit
// digits. A unit is named by its byte, the exponent field of its binary32 word: 1 to 241, all of them normal numbers.
inline constexpr std::int32_t kLargest = 127 * 257;
inline constexpr int kMinUnit = 1;
inline constexpr int kNotFinite = 255;  // the byte of numbers of which one is not finite; their integers are 0

inline constexpr int kTermBlock = 512;  // terms of a row of activations that share a unit
inline constexpr int kUnitRange = 24;   // a row's units are at most so many powers of two apart
inline constexpr std::int64_t kMaxTerms = std::int64_t{1} << 17;

inline constexpr int kKeyBlock = 128;        // keys of one softmax block, cut at absolute positions
inline constexpr int kMaxScoreTerms = 512;   // elements of a head: a score's sum fits 32 bits
inline constexpr int kMinWeightPower = -16;  // at this power of two and below, a value's weight is 0
inline constexpr float kMaxWeight = 127 * 256;

// From the bits of the largest magnitude: the least unit with which it fits. The constant carries into the exponent
// field just where the integer would be more than two digits hold.
REPROFUSE_HOST_DEVICE inline int unit_byte(std::uint32_t max_bits) {
  if (max_bits >= kInfinityBits) return kNotFinite;
  const int byte = static_cast<int>((max_bits + 0x10100U) >> 23) - 14;
  return byte < kMinUnit ? kMinUnit : byte;
}

// The unit of a block of a row whose largest block has row_unit.
REPROFUSE_HOST_DEVICE inline int block_unit(int unit, int row_unit) {
  return unit < row_unit - kUnitRange ? row_unit - kUnitRange : unit;
}

REPROFUSE_HOST_DEVICE inline float unit_value(int byte) {  // an infinity for kNotFinite
  return float_from_bits(static_cast<std::uint32_t>(byte) << 23);
}

// 1 / unit; 0 for kNotFinite, so that the integers of finite numbers beside one that is not are 0.
REPROFUSE_HOST_DEVICE inline float inverse_unit(int byte) {
  return byte == kNotFinite ? 0.0F : float_from_bits(static_cast<std::uint32_t>(254 - byte) << 23);
}

// rint(value * inverse), ties to even. The product is exact, or so small that both it and what it stands for round to
// 0; the sum rounds at the units place. For finite values and their own unit, or a larger one.
inline constexpr float kRoundToInteger = 0x1.8p+23F;
REPROFUSE_HOST_DEVICE inline std::int32_t snap(float value, float inverse) {
  return static_cast<std::int32_t>(float_bits(value * inverse + kRoundToInteger) - float_bits(kRoundToInteger));
}

// X = 256 * high + low, low in [-128, 127].
REPROFUSE_HOST_DEVICE inline std::int32_t high_digit(std::int32_t x) {
  return (x + 128) >> 8;
}

REPROFUSE_HOST_DEVICE inline std::int32_t low_digit(std::int32_t x) {
  return x - 256 * high_digit(x);
}

// What one term adds: (X * W - low(X) * low(W)) / 256. The product of low digits is left out.
REPROFUSE_HOST_DEVICE inline std::int32_t term(std::int32_t x, std::int32_t w) {
  return high_digit(x) * w + low_digit(x) * high_digit(w);
}

// A term is at most this in magnitude: 512 of them fit 32 bits, and 256 blocks, shifted by up to 24 places, 64.
inline constexpr std::int64_t kMaxTerm = 127 * std::int64_t{kLargest} + std::int64_t{128} * 127;
static_assert(kTermBlock * kMaxTerm < std::int64_t{1} << 31);
static_assert(kMaxTerms / kTermBlock * kTermBlock * kMaxTerm < std::int64_t{1} << (63 - kUnitRange));
static_assert(kMaxScoreTerms * kMaxTerm < std::int64_t{1} << 31 && kKeyBlock * kMaxTerm < std::int64_t{1} << 31);

REPROFUSE_HOST_DEVICE inline float to_float(std::int64_t sum) {
#if defined(__CUDA_ARCH__)
  return __ll2float_rn(sum);
#else
  return static_cast<float>(sum);
#endif
}

REPROFUSE_HOST_DEVICE inline float power_of_two(int exponent) {  // -126 to 127
  return float_from_bits(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// The result of a linear layer before its bias: float(sum) * 2^(row_unit + weight_unit - 270), where sum counts in
// units of 256 * 2^(row_unit - 24) * weight unit. Scaling rounds again only where the result is subnormal.
REPROFUSE_HOST_DEVICE inline float result(std::int64_t sum, int row_unit, int weight_unit) {
  const int shift = row_unit + weight_unit - 270;
  const int first = shift < -126 ? -126 : shift > 127 ? 127 : shift;
#if defined(__CUDA_ARCH__)
  return __fmul_rn(__fmul_rn(to_float(sum), power_of_two(first)), power_of_two(shift - first));
#else
  return to_float(sum) * power_of_two(first) * power_of_two(shift - first);
#endif
}

// 2^x = 1 + c1 x + ... + c4 x^4 for |x| <= 1/2, relative error 2^-18.4: least squares, weighted until even.
inline constexpr float kExp2C1 = 0x1.62e12cp-1F;
inline constexpr float kExp2C2 = 0x1.ec0372p-3F;
inline constexpr float kExp2C3 = 0x1.c9fc8p-5F;
inline constexpr float kExp2C4 = 0x1.3a04ap-7F;
inline constexpr float kExp2Min = -126.0F;
inline constexpr float kExp2Shift = 0x1.8p+23F + 127;  // the low bits of a sum: an exponent field

// 2^x for x <= 0; 2^-126 below -126. 2^0 is 1, and a result is a normal number, at most 1. A NaN gives anything.
REPROFUSE_HOST_DEVICE inline float exp2_nonpositive(float x) {
  x = x > kExp2Min ? x : kExp2Min;
  const float shifted = x + kExp2Shift;
  const float r = x - (shifted - kExp2Shift);  // exact
  float p = fma_rn(kExp2C4, r, kExp2C3);
  p = fma_rn(p, r, kExp2C2);
  p = fma_rn(p, r, kExp2C1);
  p = fma_rn(p, r, 1.0F);
  return p * float_from_bits(float_bits(shifted) << 23);  // exact
}

// Scores are counted in powers of two: a row's factor, of which a score is float(sum) * key's unit * factor.
inline constexpr float kScoreScale = 0x1.715476p+8F;  // 256 / ln 2
REPROFUSE_HOST_DEVICE inline float score_factor(float scale, int query_unit) {
  return scale * kScoreScale * unit_value(query_unit);
}

// What a probability is multiplied by before it is rounded to the weight of its value.
REPROFUSE_HOST_DEVICE inline float weight_factor(int value_unit, int largest_unit) {
  const int apart = value_unit - largest_unit;
  return kMaxWeight * power_of_two(apart < kMinWeightPower ? kMinWeightPower : apart);
}

// rint(p * factor) for 0 <= p <= 1: the product is rounded at the units place alone.
REPROFUSE_HOST_DEVICE inline std::int32_t weight_of(float p, float factor) {
  return static_cast<std::int32_t>(float_bits(fma_rn(p, factor, kRoundToInteger)) - float_bits(kRoundToInteger));
}

// rint(p * 2^23), a term of the sum of probabilities; and that sum.
REPROFUSE_HOST_DEVICE inline std::int32_t sum_term(float p) {
  return static_cast<std::int32_t>(float_bits(fma_rn(p, 0x1p+23F, 0x1p+23F)) - float_bits(0x1p+23F));
}

REPROFUSE_HOST_DEVICE inline float sum_value(std::int32_t sum) {
  return to_float(sum) * 0x1p-23F;
}

// A weighted sum of values counts in this: 256 * unit / 32512.
inline constexpr float kValueScale = 0x1.020408p-7F;  // 1 / 127
REPROFUSE_HOST_DEVICE inline float value_scale(int largest_unit) {
  return unit_value(largest_unit) * kValueScale;
}

}  // namespace reprofuse::int16
