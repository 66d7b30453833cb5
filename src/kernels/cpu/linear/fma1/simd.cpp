// fma-1 for every instruction set with a fused multiply-add, from one source: Highway compiles this file once per
// target. Lanes are independent outputs, so the register width cannot move a bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/fma1/simd.cpp"
#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/fma1/kernels.hpp"
#include "numerics/fma1.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/linear/registers-inl.hpp"

static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// Tiles: as many accumulators as leave room for a row of weights, an activation and a constant without a spill.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 12, kTilePanels = 2;  // 24 of 32 registers
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 5, kTilePanels = 1;  // 10 of 16 registers; with 12, GCC spills
#else
constexpr int kTileRows = 6, kTilePanels = 1;  // 24 of 32 registers
#endif
// One row: enough chains to hide the latency of a fused multiply-add, and few enough streams for the prefetchers.
constexpr int kDecodePanels = 4;
static_assert(kTileRows <= kMaxTileRows && kTilePanels <= kGroupPanels && kDecodePanels <= kGroupPanels);

// One word's worth of terms starts at `words` in the first panel and at `x` in the block of rows.
template <class Weight, int kRows, int kPanels, std::size_t kTerm>
HWY_INLINE void multiply_add(const std::uint32_t* words, std::size_t panel_stride, const float* x,
                             Vector (&chains)[kRows][kPanels * kPanel / kLanes]) {
  constexpr int kVectors = kPanels * kPanel / kLanes;
  constexpr int kPerPanel = kPanel / kLanes;
  Vector weights[kVectors];
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) {
    const std::uint32_t* at = words + static_cast<std::size_t>(v / kPerPanel) * panel_stride + v % kPerPanel * kLanes;
    weights[v] = Weight::term(hn::Load(Words(), at), hwy::SizeTag<kTerm>());
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    const Vector activation = hn::Set(Floats(), x[kTerm * kRows + static_cast<std::size_t>(r)]);
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) chains[r][v] = hn::MulAdd(activation, weights[v], chains[r][v]);
  }
}

template <class Weight, int kRows, int kPanels>
HWY_NOINLINE void segment_tile(const SegmentTile& tile, int first_panel) {
  constexpr int kVectors = kPanels * kPanel / kLanes;
  const std::size_t stride = tile.panel_stride / sizeof(std::uint32_t);
  const auto* words = static_cast<const std::uint32_t*>(tile.weights) + static_cast<std::size_t>(first_panel) * stride;
  const float* x = tile.x;
  Vector chains[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) chains[r][v] = hn::Zero(Floats());
  }
  for (int i = tile.terms / Weight::kTerms; i > 0; --i) {
    multiply_add<Weight, kRows, kPanels, 0>(words, stride, x, chains);
    if constexpr (Weight::kTerms == 2) multiply_add<Weight, kRows, kPanels, 1>(words, stride, x, chains);
    words += kPanel;
    x += kRows * Weight::kTerms;
  }
  if (tile.terms % Weight::kTerms != 0) multiply_add<Weight, kRows, kPanels, 0>(words, stride, x, chains);
  float* totals = tile.totals + static_cast<std::ptrdiff_t>(first_panel) * kPanel;
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r, totals += tile.totals_stride) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) {
      float* total = totals + v * kLanes;
      hn::Store(tile.first ? chains[r][v] : hn::Add(hn::Load(Floats(), total), chains[r][v]), Floats(), total);
    }
  }
}

template <class Weight, int kRows, int kPanels>
void segment_rows(const SegmentTile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return segment_rows<Weight, kRows - 1, kPanels>(tile);
    int panel = 0;
    for (; panel + kPanels <= tile.panels; panel += kPanels) segment_tile<Weight, kRows, kPanels>(tile, panel);
    for (; panel < tile.panels; ++panel) segment_tile<Weight, kRows, 1>(tile, panel);
  }
}

template <class Weight>
void segment(const SegmentTile& tile) {
  if (tile.rows == 1) return segment_rows<Weight, 1, kDecodePanels>(tile);
  segment_rows<Weight, kTileRows, kTilePanels>(tile);
}

constexpr LinearFma1Kernels kLinearFma1 = {.target = kTarget,
                                           .lanes = kLanes,
                                           .rows = kTileRows,
                                           .bf16 = segment<Bf16Pair>,
                                           .f16 = segment<F16Pair>,
                                           .f32 = segment<F32Word>};

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearFma1Kernels* linear_fma1_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kLinearFma1);
}

}  // namespace reprofuse::cpu
#endif
