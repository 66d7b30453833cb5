// Contract exact-1: operands snapped to fixed point, integer sums, one rounding per result. Integers have no order, so
// nothing here mentions one. For host and device code alike; changing a number here makes a new contract.
#pragma once

#include <cstdint>

#include "base/math.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::exact1 {

// An activation row becomes integers X = rint(x * 2^(23 - e)), |X| <= 127 * (2^16 + 2^8 + 1): three signed 8-bit
// digits. A weight row becomes integers W = rint(w * 2^(22 - e)), |W| <= 2^22. e is the row's exponent.
inline constexpr int kActivationBits = 23;
inline constexpr int kWeightBits = 22;

// Rows smaller than 2^-103 share its exponent, so that each scale is a normal binary32 number.
inline constexpr int kMinExponent = -103;

// The sum of kMaxTerms products is below 2^63 in magnitude.
inline constexpr std::int64_t kMaxTerms = std::int64_t{1} << 17;

REPROFUSE_HOST_DEVICE inline float power_of_two(int exponent) {  // -126 to 127
  return float_from_bits(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// The exponent of an activation row, from the bits of its largest magnitude: max < 2^e, and where max rounds to more
// than three digits hold, one more. The constant carries into the exponent field just then.
REPROFUSE_HOST_DEVICE inline int activation_exponent(std::uint32_t max_bits) {
  const int e = static_cast<int>((max_bits + 0x10101U) >> 23) - 126;
  return e < kMinExponent ? kMinExponent : e;
}

// The exponent of a weight row: max < 2^e.
REPROFUSE_HOST_DEVICE inline int weight_exponent(std::uint32_t max_bits) {
  const int e = static_cast<int>(max_bits >> 23) - 126;
  return e < kMinExponent ? kMinExponent : e;
}

REPROFUSE_HOST_DEVICE inline float activation_scale(int exponent) {
  return power_of_two(kActivationBits - exponent);
}

REPROFUSE_HOST_DEVICE inline float weight_scale(int exponent) {
  return power_of_two(kWeightBits - exponent);
}

// rint(value * scale), ties to even. The product is exact, or so small that both it and what it stands for round to 0.
REPROFUSE_HOST_DEVICE inline std::int32_t snap_activation(float value, float scale) {
#if defined(__CUDA_ARCH__)
  return __float2int_rn(__fmul_rn(value, scale));
#else
  return static_cast<std::int32_t>(std::nearbyintf(value * scale));
#endif
}

// The bits of 1.5 * 2^23 + rint(value * scale): the addition rounds at the units place. Their low 24 bits are W + 2^22,
// never negative, whose bytes are the weight's digits.
inline constexpr float kWeightOffset = 0x1.8p23F;
inline constexpr std::int32_t kWeightBias = 1 << kWeightBits;
REPROFUSE_HOST_DEVICE inline std::uint32_t snap_weight(float value, float scale) {
  return float_bits(fma_rn(value, scale, kWeightOffset));
}

REPROFUSE_HOST_DEVICE inline std::int32_t weight_integer(std::uint32_t snapped) {
  return static_cast<std::int32_t>(snapped - float_bits(kWeightOffset));
}

// The lowest digits: X = X' * 2^8 + low with low in [-128, 127], and W = W' * 2^8 + low with low in [0, 255].
REPROFUSE_HOST_DEVICE inline std::int32_t activation_low(std::int32_t x) {
  return static_cast<std::int8_t>(static_cast<std::uint8_t>(x));
}

REPROFUSE_HOST_DEVICE inline std::int32_t weight_low(std::int32_t w) {
  return w & 0xff;
}

// What one term adds to the sum: the product, but for that of the lowest digits. It is at most 2^15 where rounding
// moves the product by up to 1.5 * 2^22, and costs one multiplication of digits in nine.
REPROFUSE_HOST_DEVICE inline std::int64_t term(std::int32_t x, std::int32_t w) {
  return std::int64_t{x} * w - std::int64_t{activation_low(x)} * weight_low(w);
}

// sum * 2^(ex + ew - 45): the sum rounded to binary32, then scaled. Scaling rounds again only where the result is
// subnormal.
REPROFUSE_HOST_DEVICE inline float result(std::int64_t sum, int activation_exponent, int weight_exponent) {
  const int shift = activation_exponent + weight_exponent - kActivationBits - kWeightBits;
  const int first = shift < -126 ? -126 : shift > 127 ? 127 : shift;
#if defined(__CUDA_ARCH__)
  return __fmul_rn(__fmul_rn(__ll2float_rn(sum), power_of_two(first)), power_of_two(shift - first));
#else
  return static_cast<float>(sum) * power_of_two(first) * power_of_two(shift - first);
#endif
}

}  // namespace reprofuse::exact1
