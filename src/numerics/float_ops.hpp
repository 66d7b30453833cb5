// The binary32 operations of the contracts, correctly rounded, for host and device code alike.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/math.hpp"

// Here, because every file that computes a contract's bits includes this one, if only through another.
#if defined(__FAST_MATH__)
#error "ReproFuse must not be compiled with -ffast-math: it would change the bits"
#endif
static_assert(FLT_EVAL_METHOD == 0, "float and double expressions must be evaluated in their own format");

namespace reprofuse {

// a * b + c, rounded once. Without an instruction the host calls the C library's fmaf, slow and correctly rounded.
REPROFUSE_HOST_DEVICE inline float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

REPROFUSE_HOST_DEVICE inline float div_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

REPROFUSE_HOST_DEVICE inline float sqrt_rn(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

REPROFUSE_HOST_DEVICE inline std::uint32_t float_bits(float a) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(a);
#else
  return std::bit_cast<std::uint32_t>(a);
#endif
}

REPROFUSE_HOST_DEVICE inline float float_from_bits(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

inline constexpr std::uint32_t kInfinityBits = 0x7f800000U;

// Without the sign, so that larger magnitudes are larger integers; from kInfinityBits on it is not finite.
REPROFUSE_HOST_DEVICE inline std::uint32_t magnitude_bits(float a) {
  return float_bits(a) & 0x7fffffffU;
}

// 1 / sqrt(sum / k + eps), the scale of every norm. A sum that is not finite gives a NaN: 1 / sqrt(infinity) would be 0
// and make a row of zeros, an error that no one sees.
REPROFUSE_HOST_DEVICE inline float inverse_rms(float sum, std::int64_t k, float eps) {
  if ((float_bits(sum) & kInfinityBits) == kInfinityBits) return float_from_bits(0x7fc00000U);
  return div_rn(1.0F, sqrt_rn(div_rn(sum, static_cast<float>(k)) + eps));
}

}  // namespace reprofuse
