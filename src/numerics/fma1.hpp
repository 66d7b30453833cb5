// The reduction trees of contract fma-1. They are functions of sizes of the model alone; nothing here may depend on a
// tile, a register width or a device. Changing a number here changes bits, and so makes a new contract.
#pragma once

#include <cstdint>

#include "base/math.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::fma1 {

inline constexpr int kSegment = 512;  // terms in one fma chain

REPROFUSE_HOST_DEVICE constexpr std::int64_t segment_count(std::int64_t k) {
  return ceil_div<std::int64_t>(k, kSegment);
}

// A kernel that rounds K up to its tile multiplies padding terms. fma(-0, +0, acc) = acc for every finite acc, -0
// included; fma(+0, +0, -0) would be +0 and lose a sign. So padding is x = kPadX and w = +0.
inline constexpr float kPadX = -0.0F;

inline constexpr int kNormLanes = 256;  // chains of a sum of squares
inline constexpr int kKeyBlock = 64;    // keys of one softmax block, cut at absolute positions

}  // namespace reprofuse::fma1
