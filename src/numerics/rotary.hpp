// What rotary_table() is made from: frequencies by the formulas of the model families. Its cos and sin are those of
// double_math.hpp. NUMERICS.md defines every bit.
#pragma once

#include <cstdint>
#include <vector>

#include "reprofuse/rotary.hpp"

namespace reprofuse {

inline constexpr std::int64_t kMaxRotaryPositions = std::int64_t{1} << 20;

// Throws kInvalidArgument for a head_dim that is not even or a value of `config` outside its range.
std::vector<float> rotary_inverse_frequencies(const RotaryConfig& config, std::int64_t head_dim);
double rotary_attention_factor(const RotaryConfig& config);

}  // namespace reprofuse
