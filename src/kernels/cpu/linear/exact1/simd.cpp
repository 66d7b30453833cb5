// exact-1 for every instruction set with a fused multiply-add, from one source: Highway compiles this file once per
// target. What the registers hold are integers, so neither their width nor the order of sums can move a bit: X * W is
// below 2^45, so a binary64 chain of 256 fused multiply-adds is exact, and the products of lowest digits, below 2^15,
// have a binary32 chain of their own.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/exact1/simd.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/exact1/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "numerics/exact1.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/linear/exact1/row-inl.hpp"

static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

using Doubles = hn::ScalableTag<double>;
using HalfFloats = hn::Half<Floats>;
using DoubleVector = hn::Vec<Doubles>;
constexpr int kDoubleLanes = kLanes / 2;

constexpr int kStripTerms = 256;
static_assert(kStripTerms <= kRowTerms);
static_assert(std::int64_t{kStripTerms} << (exact1::kActivationBits + exact1::kWeightBits) <= std::int64_t{1} << 53);
static_assert(kStripTerms * 128 * 255 <= 1 << 24);

// Tiles of kLanes columns: two binary64 chains and one of binary32 for each row, and room for a term's operands.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 8, kFewRows = 4;  // 24 and 12 of 32 registers
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 4, kFewRows = 2;  // 12 and 6 of 16 registers
#else
constexpr int kTileRows = 8, kFewRows = 4;  // 24 and 12 of 32 registers
#endif
static_assert(kTileRows <= kMaxExactRows);

// A packed strip: [terms][width] whole integers, then [terms][width] lowest digits. A single row has its own: pack_row.
constexpr std::size_t kTermBytes = sizeof(double) + sizeof(float);

inline std::int64_t pack_rows(const ActivationStrip& strip) {
  auto* whole = static_cast<double*>(strip.packed) + strip.row;
  auto* low = reinterpret_cast<float*>(static_cast<double*>(strip.packed) + strip.terms * strip.rows) + strip.row;
  const Vector scale = hn::Set(Floats(), strip.scale);
  HWY_ALIGN std::int32_t snapped[kLanes];
  std::int64_t sum = 0;
  for (int k = 0; k < strip.terms; ++k) {
    if (k % kLanes == 0) hn::Store(snap_activation_lanes(strip.x + k, strip.terms - k, scale), Integers(), snapped);
    const std::int32_t x = snapped[k % kLanes];
    whole[k * strip.rows] = x;
    low[k * strip.rows] = static_cast<float>(exact1::activation_low(x));
    sum += x;
  }
  return sum;
}

inline std::int64_t snap_activations(const ActivationStrip& strip) {
  return strip.rows == 1 ? pack_row(strip) : pack_rows(strip);
}

// The weights of kLanes columns at one term.
struct SnappedLanes {
  DoubleVector whole[2];
  Vector low;
};

HWY_INLINE Vector low_digits(WordVector bits) {
  return hn::ConvertTo(Floats(), hn::BitCast(Integers(), hn::And(bits, hn::Set(Words(), 0xffU))));
}

HWY_INLINE SnappedLanes snap_lanes(Vector weights, Vector scales) {
  const WordVector bits = snap_weight_lanes(weights, scales);
  const Vector whole = hn::Sub(hn::BitCast(Floats(), bits), hn::Set(Floats(), exact1::kWeightOffset));
  return {{hn::PromoteTo(Doubles(), hn::LowerHalf(HalfFloats(), whole)),
           hn::PromoteTo(Doubles(), hn::UpperHalf(HalfFloats(), whole))},
          low_digits(bits)};
}

template <class Weight, std::size_t kTerm>
HWY_INLINE void snap_term(const WeightStrip& strip, int k, double* whole, float* low) {
  const std::uint32_t* words = strip.words + static_cast<std::ptrdiff_t>(k / Weight::kTerms) * kPanel;
  for (int c = 0; c < kPanel; c += kLanes) {
    const Vector weights = Weight::term(hn::Load(Words(), words + c), hwy::SizeTag<kTerm>());
    const SnappedLanes lanes = snap_lanes(weights, hn::Load(Floats(), strip.scales + c));
    hn::Store(lanes.whole[0], Doubles(), whole + k * kPanel + c);
    hn::Store(lanes.whole[1], Doubles(), whole + k * kPanel + c + kDoubleLanes);
    hn::Store(lanes.low, Floats(), low + k * kPanel + c);
  }
}

template <class Weight>
void snap_weights(const WeightStrip& strip, void* packed) {
  auto* whole = static_cast<double*>(packed);
  auto* low = reinterpret_cast<float*>(whole + strip.terms * kPanel);
  for (int k = 0; k < strip.terms; k += Weight::kTerms) {
    snap_term<Weight, 0>(strip, k, whole, low);
    if constexpr (Weight::kTerms == 2)
      if (k + 1 < strip.terms) snap_term<Weight, 1>(strip, k + 1, whole, low);
  }
}

// The chains of a row and kLanes columns are two of whole integers and one of lowest digits.
template <int kRows>
HWY_INLINE void zero_chains(DoubleVector (&whole)[kRows][2], Vector (&low)[kRows]) {
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    whole[r][0] = whole[r][1] = hn::Zero(Doubles());
    low[r] = hn::Zero(Floats());
  }
}

HWY_INLINE void multiply_add(const SnappedLanes& weights, double x, float x_low, DoubleVector (&whole)[2],
                             Vector& low) {
  const DoubleVector wide = hn::Set(Doubles(), x);
  whole[0] = hn::MulAdd(weights.whole[0], wide, whole[0]);
  whole[1] = hn::MulAdd(weights.whole[1], wide, whole[1]);
  low = hn::MulAdd(weights.low, hn::Set(Floats(), x_low), low);
}

HWY_INLINE void add_to_totals(const DoubleVector (&whole)[2], Vector low, std::int64_t* totals) {
  const DoubleVector wide[2] = {hn::PromoteTo(Doubles(), hn::LowerHalf(HalfFloats(), low)),
                                hn::PromoteTo(Doubles(), hn::UpperHalf(HalfFloats(), low))};
  HWY_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    std::int64_t* to = totals + half * kDoubleLanes;
    const auto sum = hn::Sub(hn::ConvertTo(Totals(), whole[half]), hn::ConvertTo(Totals(), wide[half]));
    hn::Store(hn::Add(hn::Load(Totals(), to), sum), Totals(), to);
  }
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const ExactTile& tile, int column) {
  const auto* x = static_cast<const double*>(tile.x);
  const auto* x_low = reinterpret_cast<const float*>(x + tile.terms * kRows);
  const auto* weights = static_cast<const double*>(tile.weights);
  const auto* weights_low = reinterpret_cast<const float*>(weights + tile.terms * kPanel) + column;
  weights += column;
  DoubleVector whole[kRows][2];
  Vector low[kRows];
  zero_chains(whole, low);
  for (int k = 0; k < tile.terms; ++k, x += kRows, x_low += kRows, weights += kPanel, weights_low += kPanel) {
    const SnappedLanes lanes = {{hn::Load(Doubles(), weights), hn::Load(Doubles(), weights + kDoubleLanes)},
                                hn::Load(Floats(), weights_low)};
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) multiply_add(lanes, x[r], x_low[r], whole[r], low[r]);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) add_to_totals(whole[r], low[r], tile.totals + r * kPanel + column);
}

template <int kRows>
void multiply_rows(const ExactTile& tile) {
  if constexpr (kRows > 1) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    for (int column = 0; column < kPanel; column += kLanes) multiply_tile<kRows>(tile, column);
  }
}

template <class Weight, int kRows>
HWY_NOINLINE void multiply_few_tile(const FewRows& few, int column) {
  const WeightStrip& strip = few.weights;
  const std::uint32_t* words = strip.words + column;
  const Vector scales = hn::Load(Floats(), strip.scales + column);
  const auto* x = static_cast<const double*>(few.x);
  const auto* x_low = reinterpret_cast<const float*>(x + strip.terms * kRows);
  DoubleVector whole[kRows][2];
  Vector low[kRows];
  zero_chains(whole, low);
  const auto add_term = [&](auto half) HWY_ATTR {
    const SnappedLanes lanes = snap_lanes(Weight::term(hn::Load(Words(), words), half), scales);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) multiply_add(lanes, x[r], x_low[r], whole[r], low[r]);
    x += kRows;
    x_low += kRows;
  };
  for (int i = strip.terms / Weight::kTerms; i > 0; --i, words += kPanel) {
    add_term(hwy::SizeTag<0>());
    if constexpr (Weight::kTerms == 2) add_term(hwy::SizeTag<1>());
  }
  if (strip.terms % Weight::kTerms != 0) add_term(hwy::SizeTag<0>());
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) add_to_totals(whole[r], low[r], few.totals + r * kPanel + column);
}

template <class Weight, int kRows>
void multiply_few(const FewRows& few) {
  if constexpr (kRows == 1) {
    for (int column = 0; column < kPanel; column += kLanes) multiply_row<Weight>(few, column);
  } else {
    if (few.rows != kRows) return multiply_few<Weight, kRows - 1>(few);
    for (int column = 0; column < kPanel; column += kLanes) multiply_few_tile<Weight, kRows>(few, column);
  }
}

template <class Weight>
constexpr LinearExact1Kernels::Weights kWeights = {snap_weights<Weight>, multiply_few<Weight, kFewRows>};

constexpr LinearExact1Kernels kLinearExact1 = {.target = kTarget,
                                               .rows = kTileRows,
                                               .few_rows = kFewRows,
                                               .terms = kStripTerms,
                                               .activation_bytes = kTermBytes,
                                               .row_bytes = kTermBytes,
                                               .weight_bytes = kPanel * kTermBytes,
                                               .weight_bias = 0,
                                               .largest_bits = largest_bits,
                                               .snap_activations = snap_activations,
                                               .multiply = multiply_rows<kTileRows>,
                                               .round = round_panel,
                                               .bf16 = kWeights<Bf16Pair>,
                                               .f16 = kWeights<F16Pair>,
                                               .f32 = kWeights<F32Word>};
static_assert(kLinearExact1.terms <= kMaxExactTerms);
static_assert(kLinearExact1.terms * kLinearExact1.weight_bytes <= kMaxExactStripBytes);

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearExact1Kernels* linear_exact1_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, kLinearExact1);
}

}  // namespace reprofuse::cpu
#endif
