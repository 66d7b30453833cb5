// exact-1 in plain 64-bit integers, for any machine and as the plainest of the kernels.
#include <algorithm>
#include <bit>

#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/exact1.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

constexpr int kStripTerms = 512;

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
  for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  return largest;
}

// Packed rows are [terms][rows].
std::int64_t snap_activations(const ActivationStrip& strip) {
  auto* packed = static_cast<std::int32_t*>(strip.packed) + strip.row;
  std::int64_t sum = 0;
  for (int k = 0; k < strip.terms; ++k) {
    const std::int32_t x = exact1::snap_activation(strip.x[k], strip.scale);
    packed[static_cast<std::ptrdiff_t>(k) * strip.rows] = x;
    sum += x;
  }
  return sum;
}

// The product is exact, or so small that the sum is the offset: the bits are those of the fused multiply-add that
// defines them, on machines that have none.
template <class Words>
std::int32_t snapped_weight(const WeightStrip& strip, int k, int column) {
  const float scaled = Words::term(strip.words + column, k) * strip.scales[column];
  return exact1::weight_integer(float_bits(scaled + exact1::kWeightOffset));
}

// Packed weights are [terms][kPanel].
template <class Words>
void snap_weights(const WeightStrip& strip, void* packed) {
  auto* to = static_cast<std::int32_t*>(packed);
  for (int k = 0; k < strip.terms; ++k)
    for (int c = 0; c < kPanel; ++c) *to++ = snapped_weight<Words>(strip, k, c);
}

void multiply(const ExactTile& tile) {
  const auto* weights = static_cast<const std::int32_t*>(tile.weights);
  const auto* x = static_cast<const std::int32_t*>(tile.x);
  for (int k = 0; k < tile.terms; ++k, x += tile.rows, weights += kPanel)
    for (int r = 0; r < tile.rows; ++r)
      for (int c = 0; c < kPanel; ++c) tile.totals[r * kPanel + c] += exact1::term(x[r], weights[c]);
}

template <class Words>
void multiply_row(const FewRows& few) {
  const auto* row = static_cast<const std::int32_t*>(few.x);
  for (int k = 0; k < few.weights.terms; ++k)
    for (int c = 0; c < kPanel; ++c) few.totals[c] += exact1::term(row[k], snapped_weight<Words>(few.weights, k, c));
}

void round_panel(const ExactSums& sums) {
  for (int c = 0; c < kPanel; ++c)
    sums.results[c] = exact1::result(sums.totals[c], sums.activation_exponent, sums.weight_exponents[c]);
}

template <class Words>
constexpr LinearExact1Kernels::Weights kWeights = {snap_weights<Words>, multiply_row<Words>};

constexpr LinearExact1Kernels kTable = {.target = "scalar",
                                        .rows = kMaxExactRows,
                                        .few_rows = 1,
                                        .terms = kStripTerms,
                                        .activation_bytes = sizeof(std::int32_t),
                                        .row_bytes = sizeof(std::int32_t),
                                        .weight_bytes = kPanel * sizeof(std::int32_t),
                                        .weight_bias = 0,
                                        .largest_bits = largest_bits,
                                        .snap_activations = snap_activations,
                                        .multiply = multiply,
                                        .round = round_panel,
                                        .bf16 = kWeights<Bf16Words>,
                                        .f16 = kWeights<F16Words>,
                                        .f32 = kWeights<F32Words>};
static_assert(kTable.terms <= kMaxExactTerms && kTable.terms * kTable.weight_bytes <= kMaxExactStripBytes);

}  // namespace

const LinearExact1Kernels& linear_exact1_scalar() {
  return kTable;
}

}  // namespace reprofuse::cpu
