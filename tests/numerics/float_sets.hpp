// Sets of binary32 inputs for tests of elementary functions.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <vector>

#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::testing {

// Every `step`-th word, both signs, NaNs and infinities included. An odd step meets every low digit.
inline std::vector<float> floats_by_word(std::uint32_t step) {
  std::vector<float> values;
  for (std::uint64_t word = 0; word < std::uint64_t{1} << 32; word += step)
    values.push_back(float_from_bits(static_cast<std::uint32_t>(word)));
  return values;
}

// Where a branch, a rounding of the exponent or a clamp of exp_f32 changes over, and the floats around each.
inline std::vector<float> exp_edges() {
  std::vector<float> values;
  const auto add_around = [&](float center) {
    for (std::uint32_t offset = 0; offset < 64; ++offset) {
      values.push_back(float_from_bits(float_bits(center) + offset));
      values.push_back(float_from_bits(float_bits(center) - offset));
    }
  };
  for (const float center : {FLT_MIN, -FLT_MIN, 1.0F, -1.0F, exp_constants::kMin, exp_constants::kMax, -87.336544F})
    add_around(center);
  for (int halves = -300; halves <= 256; ++halves) add_around(static_cast<float>(halves) * 0.34657359F);
  for (const float value : {0.0F, -0.0F, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN}) values.push_back(value);
  return values;
}

}  // namespace reprofuse::testing
