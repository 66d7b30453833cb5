// The linear layer of int16-1 in plain integers, for any machine and as the plainest of the kernels.
#include <algorithm>
#include <bit>

#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
namespace {

// One word of a panel: two 16-bit weights (term k low, k + 1 high) or one binary32.
struct Bf16Words {
  static float term(const std::uint32_t* words, std::ptrdiff_t k) {
    return widen_bf16(static_cast<std::uint16_t>(words[k / 2 * kPanel] >> 16 * (k % 2)));
  }
};
struct F16Words {
  static float term(const std::uint32_t* words, std::ptrdiff_t k) {
    return widen_f16(static_cast<std::uint16_t>(words[k / 2 * kPanel] >> 16 * (k % 2)));
  }
};
struct F32Words {
  static float term(const std::uint32_t* words, std::ptrdiff_t k) { return std::bit_cast<float>(words[k * kPanel]); }
};

std::uint32_t largest_bits(const float* x, std::int64_t k) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, float_bits(x[i]) & 0x7fffffffU);
  return largest;
}

// Packed rows are [terms][rows], packed weights [terms][kPanel].
std::int32_t snap_activations(const Int16Activations& strip) {
  auto* packed = static_cast<std::int32_t*>(strip.packed) + strip.row;
  for (int k = 0; k < strip.terms; ++k)
    packed[static_cast<std::ptrdiff_t>(k) * strip.rows] = int16::snap(strip.x[k], strip.inverse);
  return 0;
}

template <class Words>
void snap_weights(const Int16Weights& strip, void* packed) {
  auto* to = static_cast<std::int32_t*>(packed);
  for (int k = 0; k < strip.terms; ++k)
    for (int c = 0; c < kPanel; ++c) *to++ = int16::snap(Words::term(strip.words + c, k), strip.inverses[c]);
}

void multiply(const Int16Tile& tile) {
  const auto* x = static_cast<const std::int32_t*>(tile.x);
  for (int r = 0; r < tile.rows; ++r) {
    const auto* weights = static_cast<const std::int32_t*>(tile.weights);
    std::int32_t sums[kPanel] = {};
    for (int k = 0; k < tile.terms; ++k, weights += kPanel)
      for (int c = 0; c < kPanel; ++c) sums[c] += int16::term(x[k * tile.rows + r], weights[c]);
    for (int c = 0; c < kPanel; ++c)
      tile.totals[r * kPanel + c] += std::int64_t{sums[c]} * (std::int64_t{1} << tile.strips[r].shift);
  }
}

template <class Words>
void multiply_row(const Int16FewRows& few) {
  std::int32_t weights[int16::kTermBlock * kPanel];
  snap_weights<Words>(few.weights, weights);
  multiply({.x = few.x,
            .weights = weights,
            .rows = few.rows,
            .terms = few.weights.terms,
            .strips = few.strips,
            .totals = few.totals});
}

void round_panel(const Int16Sums& sums) {
  for (int c = 0; c < kPanel; ++c) sums.results[c] = int16::result(sums.totals[c], sums.row_unit, sums.weight_units[c]);
}

template <class Words>
constexpr LinearInt16Kernels::Weights kWeights = {snap_weights<Words>, multiply_row<Words>};

constexpr LinearInt16Kernels kTable = {.target = "scalar",
                                       .rows = 8,
                                       .few_rows = 1,
                                       .activation_bytes = sizeof(std::int32_t),
                                       .weight_bytes = kPanel * sizeof(std::int32_t),
                                       .largest_bits = largest_bits,
                                       .snap_activations = snap_activations,
                                       .multiply = multiply,
                                       .round = round_panel,
                                       .bf16 = kWeights<Bf16Words>,
                                       .f16 = kWeights<F16Words>,
                                       .f32 = kWeights<F32Words>};
static_assert(kTable.rows <= kMaxInt16Rows && kTable.weight_bytes <= kMaxInt16TermBytes);

}  // namespace

const LinearInt16Kernels& linear_int16_scalar() {
  return kTable;
}

}  // namespace reprofuse::cpu
