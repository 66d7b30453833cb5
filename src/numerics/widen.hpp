// Exact widening of 16-bit weights to binary32, by bits, for host and device.
#pragma once

#include <bit>
#include <cstdint>

#include "base/math.hpp"

namespace reprofuse {

inline float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Every binary16 value is a binary32 value: move the fields, then rescale the exponent, which is exact.
inline float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

inline bool is_finite_bits(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) != 0x7f800000U;
}

}  // namespace reprofuse
