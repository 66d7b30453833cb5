// fma-1 one output at a time, for machines whose vectors have no fused multiply-add and as the plainest of the kernels.
#include <bit>

#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cpu {
namespace {

// One word of a panel: two 16-bit weights (term k low, k + 1 high) or one binary32.
struct Bf16Pair {
  static constexpr int kTerms = 2;
  static float term(std::uint32_t word, int i) { return widen_bf16(static_cast<std::uint16_t>(word >> 16 * i)); }
};
struct F16Pair {
  static constexpr int kTerms = 2;
  static float term(std::uint32_t word, int i) { return widen_f16(static_cast<std::uint16_t>(word >> 16 * i)); }
};
struct F32Word {
  static constexpr int kTerms = 1;
  static float term(std::uint32_t word, int) { return std::bit_cast<float>(word); }
};

using WidenedPanel = float[fma1::kSegment][kPanel];

// One panel, widened once for all rows.
template <class Weight>
void widen_panel(const std::uint32_t* words, int terms, WidenedPanel& weights) {
  for (int k = 0; k < terms; ++k)
    for (int c = 0; c < kPanel; ++c)
      weights[k][c] = Weight::term(words[k / Weight::kTerms * kPanel + c], k % Weight::kTerms);
}

// Eight chains side by side hide the latency of a fused multiply-add; each is its own output.
// Inlined into callers that differ only in the instructions they may use.
[[gnu::always_inline]] inline void chain_rows(const SegmentTile& tile, const WidenedPanel& weights, float* totals) {
  constexpr int kChains = 8;
  for (int r = 0; r < tile.rows; ++r, totals += tile.totals_stride) {
    for (int c = 0; c < kPanel; c += kChains) {
      float chain[kChains] = {};
      for (int k = 0; k < tile.terms; ++k) {
        const float x = tile.x[k * tile.rows + r];
#pragma GCC unroll 8
        for (int i = 0; i < kChains; ++i) chain[i] = __builtin_fmaf(x, weights[k][c + i], chain[i]);
      }
      for (int i = 0; i < kChains; ++i) totals[c + i] = tile.first ? chain[i] : totals[c + i] + chain[i];
    }
  }
}

using ChainRows = void (*)(const SegmentTile&, const WidenedPanel&, float*);

// Without an instruction this calls the C library's fmaf, which is slow and correctly rounded.
void chain_rows_generic(const SegmentTile& tile, const WidenedPanel& weights, float* totals) {
  chain_rows(tile, weights, totals);
}

template <class Weight, ChainRows kChainRows>
void segment(const SegmentTile& tile) {
  WidenedPanel weights;
  const std::size_t stride = tile.panel_stride / sizeof(std::uint32_t);
  for (int panel = 0; panel < tile.panels; ++panel) {
    const auto* words = static_cast<const std::uint32_t*>(tile.weights) + static_cast<std::size_t>(panel) * stride;
    widen_panel<Weight>(words, tile.terms, weights);
    kChainRows(tile, weights, tile.totals + static_cast<std::ptrdiff_t>(panel) * kPanel);
  }
}

template <ChainRows kChainRows>
constexpr LinearFma1Kernels kTable = {.target = "scalar",
                                      .lanes = 1,
                                      .rows = kMaxTileRows,
                                      .bf16 = segment<Bf16Pair, kChainRows>,
                                      .f16 = segment<F16Pair, kChainRows>,
                                      .f32 = segment<F32Word, kChainRows>};

}  // namespace

#if defined(__x86_64__)
namespace {

[[gnu::target("fma")]] void chain_rows_fma(const SegmentTile& tile, const WidenedPanel& weights, float* totals) {
  chain_rows(tile, weights, totals);
}

}  // namespace

const LinearFma1Kernels& linear_fma1_scalar() {
  return __builtin_cpu_supports("fma") ? kTable<chain_rows_fma> : kTable<chain_rows_generic>;
}
#else
const LinearFma1Kernels& linear_fma1_scalar() {
  return kTable<chain_rows_generic>;
}
#endif

}  // namespace reprofuse::cpu
