// 1 / sqrt(sum / k + eps), the scale of every norm, for host and device.
#pragma once

#include <cstdint>

#include "numerics/float_ops.hpp"

namespace reprofuse {

// A sum that is not finite gives a NaN: 1 / sqrt(infinity) would be 0 and make a row of zeros, an error that no one
// sees.
REPROFUSE_HOST_DEVICE inline float inverse_rms(float sum, std::int64_t k, float eps) {
  if ((float_bits(sum) & 0x7f800000U) == 0x7f800000U) return float_from_bits(0x7fc00000U);
  return div_rn(1.0F, sqrt_rn(div_rn(sum, static_cast<float>(k)) + eps));
}

}  // namespace reprofuse
