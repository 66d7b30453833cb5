// The linear layer of int16-1 in plain integers, for any machine and as the plainest of the kernels.
#include <algorithm>

#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"

namespace reprofuse::cpu {
namespace {

std::uint32_t largest_bits(const float* x, std::int64_t k) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

// Packed rows are [terms][rows].
std::int32_t snap_activations(const Int16Activations& strip) {
  auto* packed = static_cast<std::int32_t*>(strip.packed) + strip.row;
  for (int k = 0; k < round_up(strip.terms, kInt16Alignment); ++k)
    packed[static_cast<std::ptrdiff_t>(k) * strip.rows] = k < strip.terms ? int16::snap(strip.x[k], strip.inverse) : 0;
  return 0;
}

std::int32_t weight_at(const std::uint32_t* words, int k, int column) {
  return static_cast<std::int16_t>(words[k / 2 * kPanel + column] >> 16 * (k % 2)) - kInt16WeightOffset;
}

void multiply(const Int16Tile& tile) {
  const auto* x = static_cast<const std::int32_t*>(tile.x);
  for (int r = 0; r < tile.rows; ++r) {
    std::int32_t sums[kPanel] = {};
    for (int k = 0; k < tile.terms; ++k)
      for (int c = 0; c < kPanel; ++c) sums[c] += int16::term(x[k * tile.rows + r], weight_at(tile.weights, k, c));
    for (int c = 0; c < kPanel; ++c)
      tile.totals[r * kPanel + c] += std::int64_t{sums[c]} * (std::int64_t{1} << tile.strips[r].shift);
  }
}

void round_panel(const Int16Sums& sums) {
  for (int c = 0; c < kPanel; ++c) sums.results[c] = int16::result(sums.totals[c], sums.row_unit, sums.weight_units[c]);
}

constexpr LinearInt16Kernels kTable = {.target = "scalar",
                                       .rows = 8,
                                       .terms_alignment = kInt16Alignment,
                                       .activation_bytes = sizeof(std::int32_t),
                                       .largest_bits = largest_bits,
                                       .snap_activations = snap_activations,
                                       .multiply = multiply,
                                       .round = round_panel};

}  // namespace

const LinearInt16Kernels& linear_int16_scalar() {
  return kTable;
}

}  // namespace reprofuse::cpu
