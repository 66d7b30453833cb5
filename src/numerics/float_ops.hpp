// The binary32 operations of the contracts, correctly rounded, for host and device code alike; and, on the host,
// weights as bits, with their exact binary32 values.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/math.hpp"
#include "reprofuse/types.hpp"

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

// Weight i of an array, as the low bits of a word. By memcpy, because the type of the caller's elements is not ours.
inline std::uint32_t load_weight(const void* weights, DType dtype, std::int64_t i) {
  const auto* bytes = static_cast<const std::byte*>(weights);
  if (dtype == DType::kF32) {
    std::uint32_t word;
    std::memcpy(&word, bytes + i * 4, sizeof(word));
    return word;
  }
  std::uint16_t half;
  std::memcpy(&half, bytes + i * 2, sizeof(half));
  return half;
}

inline void store_weight(void* weights, DType dtype, std::int64_t i, std::uint32_t bits) {
  auto* bytes = static_cast<std::byte*>(weights);
  if (dtype == DType::kF32) {
    std::memcpy(bytes + i * 4, &bits, sizeof(bits));
  } else {
    const auto half = static_cast<std::uint16_t>(bits);
    std::memcpy(bytes + i * 2, &half, sizeof(half));
  }
}

inline float widen_bf16(std::uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

// Every binary16 value is a binary32 value: move the fields, then rescale the exponent, which is exact.
inline float widen_f16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

inline float widen(DType dtype, std::uint32_t bits) {
  switch (dtype) {
    case DType::kBF16: return widen_bf16(bits);
    case DType::kF16: return widen_f16(bits);
    case DType::kF32: break;
  }
  return std::bit_cast<float>(bits);
}

// The nearest BF16 value, ties to even, as its 16 bits. Finite values beyond the largest BF16 become an infinity; a NaN
// stays one, which rounding its bits like a number's would not see to.
inline std::uint32_t round_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return is_nan ? bits >> 16 | 0x40U : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
}

// For a cache: a finite value stays finite, at the largest BF16, so that a masked key cannot bring an infinity into
// play.
inline std::uint32_t round_bf16_finite(float value) {
  const std::uint32_t rounded = round_bf16(value);
  const bool overflowed =
      (rounded & 0x7fffU) == 0x7f80U && (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) < 0x7f800000U;
  return overflowed ? rounded - 1 : rounded;
}

inline bool is_finite_bits(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) != 0x7f800000U;
}

}  // namespace reprofuse
