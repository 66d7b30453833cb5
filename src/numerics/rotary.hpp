// Rotary position embeddings: frequencies by the formulas of the model families, cos and sin by double_math.hpp.
// NUMERICS.md defines every bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprofuse/rotary.hpp"

namespace reprofuse {

inline constexpr std::int64_t kMaxRotaryPositions = std::int64_t{1} << 20;

// What rows of the table are made from, and the rows so far.
struct GrowingRotaryTable {
  std::vector<float> inverse_frequencies;  // [head_dim / 2]
  double attention_factor = 1.0;           // multiplies cos and sin
  std::vector<float> cos, sin;             // [positions, head_dim / 2]

  std::int64_t width() const { return static_cast<std::int64_t>(inverse_frequencies.size()); }
  std::int64_t positions() const { return width() == 0 ? 0 : static_cast<std::int64_t>(cos.size()) / width(); }
};

// Throws kInvalidArgument for a head_dim that is not even or a value of `config` outside its range.
std::vector<float> rotary_inverse_frequencies(const RotaryConfig& config, std::int64_t head_dim);
double rotary_attention_factor(const RotaryConfig& config);

// Rows for positions [begin, begin + cos.size() / width), at most kMaxRotaryPositions.
void rotary_rows(const GrowingRotaryTable& table, std::int64_t begin, std::span<float> cos, std::span<float> sin);

GrowingRotaryTable make_growing_rotary_table(const RotaryConfig& config, std::int64_t head_dim, std::int64_t positions);

// Appends rows until there are `positions`; the rows already there stay as they are.
void extend_rotary_table(GrowingRotaryTable& table, std::int64_t positions);

}  // namespace reprofuse
