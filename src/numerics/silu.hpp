// SiLU, x / (1 + exp(-x)), for host and device.
#pragma once

#include "numerics/exp.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse {

// exp_f32 saturates at a finite value, so the quotient is a finite number for every finite x.
REPROFUSE_HOST_DEVICE inline float silu(float x) {
  return div_rn(x, 1.0F + exp_f32(-x));
}

}  // namespace reprofuse
