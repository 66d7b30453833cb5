// exp and log in binary32, for host and device: the same operations in the same order, hence the same bits everywhere.
// exp is at most 0.892 ulp off for every input in range (bench/elementary_error.cpp); kernels/cpu/exp-inl.hpp has it on
// vectors.
#pragma once

#include <cstdint>

#include "numerics/float_ops.hpp"

namespace reprofuse {
namespace exp_constants {

// Below kMin the result is 0. Above kMax, the last input whose exponential is finite, it stays at that of kMax,
// 0x1.ffff08p+127: an exponential never is infinite.
inline constexpr float kMin = -104.0F;
inline constexpr float kMax = 0x1.62e42ep+6F;

// x = n ln 2 + r. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum's word.
inline constexpr float kLog2E = 0x1.715476p+0F;
inline constexpr float kLn2High = 0x1.62e43p-1F;   // n * kLn2High - x is exact in an fma
inline constexpr float kLn2Low = -0x1.05c61p-29F;  // ln 2 - kLn2High
inline constexpr float kShift = 0x1.8p+23F;

// exp(r) = 1 + r + c2 r^2 + ... + c6 r^6 for |r| <= 0.34662, relative error 2^-27.9 (tools/sollya/exp.sollya).
inline constexpr float kC2 = 0x1.fffff8p-2F;
inline constexpr float kC3 = 0x1.55548cp-3F;
inline constexpr float kC4 = 0x1.555b82p-5F;
inline constexpr float kC5 = 0x1.123cfap-7F;
inline constexpr float kC6 = 0x1.686a5ep-10F;

// A result may be subnormal or near overflow, where 2^n itself does not exist: the product with 2^(n + k) is exact and
// the one with 2^-k rounds once. The addend holds 127 + k, so the sum's low bits are the exponent field of 2^(n + k).
inline constexpr float kShiftNegative = kShift + 127 + 25;  // k = 25
inline constexpr float kUnraiseNegative = 0x1p-25F;
inline constexpr float kShiftPositive = kShift + 127 - 1;  // k = -1
inline constexpr float kUnraisePositive = 0x1p+1F;

}  // namespace exp_constants

// exp(x) for kMin <= x; `shift` and `unraise` belong to the sign of x.
REPROFUSE_HOST_DEVICE inline float exp_f32_scaled(float x, float shift, float unraise) {
  using namespace exp_constants;
  const float shifted = fma_rn(x, kLog2E, shift);
  const float n = shifted - shift;
  const float r = fma_rn(n, -kLn2Low, fma_rn(n, -kLn2High, x));
  float p = fma_rn(kC6, r, kC5);
  p = fma_rn(p, r, kC4);
  p = fma_rn(p, r, kC3);
  p = fma_rn(p, r, kC2);
  p = fma_rn(p, r, 1.0F);
  p = fma_rn(p, r, 1.0F);
  const float raised = float_from_bits(float_bits(shifted) << 23);
  return p * raised * unraise;
}

// For every x that is not a NaN; a NaN gives a NaN.
REPROFUSE_HOST_DEVICE inline float exp_f32(float x) {
  using namespace exp_constants;
  x = x < kMin ? kMin : x;
  x = x > kMax ? kMax : x;
  const bool negative = x < 0.0F;
  return exp_f32_scaled(x, negative ? kShiftNegative : kShiftPositive, negative ? kUnraiseNegative : kUnraisePositive);
}

// Bits: equal exp_f32 for x <= 0, in fewer instructions; a softmax needs no other. A NaN gives a NaN.
REPROFUSE_HOST_DEVICE inline float exp_nonpositive_f32(float x) {
  using namespace exp_constants;
  x = x < kMin ? kMin : x;
  return exp_f32_scaled(x, kShiftNegative, kUnraiseNegative);
}

// SiLU, x / (1 + exp(-x)). exp_f32 saturates at a finite value, so the quotient is a finite number for every finite x.
REPROFUSE_HOST_DEVICE inline float silu(float x) {
  return div_rn(x, 1.0F + exp_f32(-x));
}

namespace log_constants {

inline constexpr std::uint32_t kTwoThirds = 0x3f2aaaabU;  // the word of 2/3
inline constexpr float kLn2 = 0x1.62e43p-1F;
inline constexpr float kMinNormal = 0x1p-126F;
inline constexpr int kFractionBits = 23;

// log(1 + f) = f + f^2 (c2 + c3 f + ... + c10 f^8) for |f| <= 1/3, relative error 2^-26.7 (tools/sollya/log.sollya).
inline constexpr float kC2 = -0x1p-1F;
inline constexpr float kC3 = 0x1.55552cp-2F;
inline constexpr float kC4 = -0x1.ffff0cp-3F;
inline constexpr float kC5 = 0x1.99bfe6p-3F;
inline constexpr float kC6 = -0x1.559bf6p-3F;
inline constexpr float kC7 = 0x1.1fd5ecp-3F;
inline constexpr float kC8 = -0x1.f306eap-4F;
inline constexpr float kC9 = 0x1.19b5d4p-3F;
inline constexpr float kC10 = -0x1.087f8ap-3F;

}  // namespace log_constants

// For finite x > 0, subnormals included.
REPROFUSE_HOST_DEVICE inline float log_f32(float x) {
  using namespace log_constants;
  const bool subnormal = x < kMinNormal;
  const std::uint32_t word = float_bits(subnormal ? x * 0x1p+23F : x);
  // x = 2^n m with 2/3 <= m < 4/3.
  const std::uint32_t exponent = (word - kTwoThirds) & 0xff800000U;
  const int n = static_cast<std::int32_t>(exponent) / (1 << kFractionBits) - (subnormal ? kFractionBits : 0);
  const float f = float_from_bits(word - exponent) - 1.0F;
  float p = fma_rn(kC10, f, kC9);
  p = fma_rn(p, f, kC8);
  p = fma_rn(p, f, kC7);
  p = fma_rn(p, f, kC6);
  p = fma_rn(p, f, kC5);
  p = fma_rn(p, f, kC4);
  p = fma_rn(p, f, kC3);
  p = fma_rn(p, f, kC2);
  p = fma_rn(p, f * f, f);
  return fma_rn(static_cast<float>(n), kLn2, p);
}

}  // namespace reprofuse
