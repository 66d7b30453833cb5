// The natural logarithm in binary32, for host and device, as numerics/exp.hpp.
#pragma once

#include <cstdint>

#include "numerics/float_ops.hpp"

namespace reprofuse {
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
