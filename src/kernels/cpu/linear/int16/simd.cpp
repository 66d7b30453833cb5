// The linear layer of int16-1 for every instruction set with a fused multiply-add, from one source: Highway compiles
// this file once per target. With digits X = 256 x0 + x1 and W = 256 w0 + w1 a term is x0 W + x1 w0: one product of
// pairs of 16-bit integers, whose sums over a block of terms fit 32 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/int16/simd.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/linear/int16/snap-inl.hpp"

static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear {

using Halves = hn::ScalableTag<std::int16_t>;
using HalfVector = hn::Vec<Halves>;

// Tiles of kLanes columns: one register of sums for each row, two where the halves of a product are added apart.
#if HWY_TARGET == HWY_AVX3
constexpr std::string_view kTarget = "avx512";
constexpr int kTileRows = 12, kFewRows = 4;
#elif HWY_TARGET == HWY_AVX2
constexpr std::string_view kTarget = "avx2";
constexpr int kTileRows = 8, kFewRows = 4;
#else
constexpr std::string_view kTarget = "neon";
constexpr int kTileRows = 8, kFewRows = 4;
#endif

// Lanes of two 16-bit integers, `low` in the lower half.
HWY_INLINE IntegerVector pair_up(IntegerVector low, IntegerVector high) {
  return hn::Or(hn::And(low, hn::Set(Integers(), 0xffff)), hn::ShiftLeft<16>(high));
}

// Packed rows are [terms][rows] of pairs (x0, x1), packed weights [terms][kPanel] of pairs (W, w0).
inline std::int32_t snap_activations(const Int16Activations& strip) {
  auto* packed = static_cast<std::int32_t*>(strip.packed) + strip.row;
  const Vector inverse = hn::Set(Floats(), strip.inverse);
  HWY_ALIGN std::int32_t pairs[kLanes];
  for (int k = 0; k < strip.terms; k += kLanes) {
    const IntegerVector x = snap_lanes(strip.x + k, strip.terms - k, inverse);
    const IntegerVector high = hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128)));
    hn::Store(pair_up(high, hn::Sub(x, hn::ShiftLeft<8>(high))), Integers(), pairs);
    const int count = HWY_MIN(kLanes, strip.terms - k);
    for (int i = 0; i < count; ++i) packed[(k + i) * strip.rows] = pairs[i];
  }
  return 0;
}

// The offset is a multiple of 2^16, so that the lower half of a word is W.
HWY_INLINE IntegerVector weight_pairs(Vector weights, Vector inverses) {
  constexpr float kOffset = 0x1.8p+23F;
  const WordVector words = snap_weight_lanes(weights, inverses, kOffset);
  const IntegerVector whole = hn::BitCast(Integers(), words);
  const IntegerVector without = hn::Set(Integers(), 128 - static_cast<std::int32_t>(float_bits(kOffset)));
  const IntegerVector high = hn::ShiftLeft<8>(hn::Add(whole, without));
  return hn::Or(hn::And(whole, hn::Set(Integers(), 0xffff)), hn::And(high, hn::Set(Integers(), -65536)));
}

template <class Weight>
void snap_weights(const Int16Weights& strip, void* packed) {
  auto* to = static_cast<std::int32_t*>(packed);
  for (int c = 0; c < kPanel; c += kLanes) {
    const Vector inverses = hn::Load(Floats(), strip.inverses + c);
    const std::uint32_t* words = strip.words + c;
    for (int k = 0; k < strip.terms; k += Weight::kTerms, words += kPanel) {
      const WordVector loaded = hn::Load(Words(), words);
      hn::Store(weight_pairs(Weight::term(loaded, hwy::SizeTag<0>()), inverses), Integers(), to + k * kPanel + c);
      if constexpr (Weight::kTerms == 2)
        if (k + 1 < strip.terms)
          hn::Store(weight_pairs(Weight::term(loaded, hwy::SizeTag<1>()), inverses), Integers(),
                    to + (k + 1) * kPanel + c);
    }
  }
}

// The sums of one row and kLanes columns.
HWY_INLINE void add_pairs(HalfVector weights, std::int32_t x, IntegerVector (&sums)[2]) {
  const auto pair = hn::BitCast(Halves(), hn::Set(Integers(), x));
  sums[0] = hn::ReorderWidenMulAccumulate(Integers(), weights, pair, sums[0], sums[1]);
}

template <int kRows>
HWY_INLINE void zero_sums(IntegerVector (&sums)[kRows][2]) {
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(Integers());
}

template <int kRows>
HWY_INLINE void add_all(const IntegerVector (&sums)[kRows][2], const Int16Strip* strips, std::int64_t* totals) {
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r)
    add_to_totals(hn::RearrangeToOddPlusEven(sums[r][0], sums[r][1]), strips[r].shift, totals + r * kPanel);
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const Int16Tile& tile, int column) {
  const auto* x = static_cast<const std::int32_t*>(tile.x);
  const auto* weights = static_cast<const std::int32_t*>(tile.weights) + column;
  IntegerVector sums[kRows][2];
  zero_sums(sums);
  for (int k = 0; k < tile.terms; ++k, x += kRows, weights += kPanel) {
    const auto pairs = hn::BitCast(Halves(), hn::Load(Integers(), weights));
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) add_pairs(pairs, x[r], sums[r]);
  }
  add_all(sums, tile.strips, tile.totals + column);
}

template <int kRows>
void multiply_rows(const Int16Tile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    for (int column = 0; column < kPanel; column += kLanes) multiply_tile<kRows>(tile, column);
  }
}

template <class Weight, int kRows>
HWY_NOINLINE void multiply_few_tile(const Int16FewRows& few, int column) {
  const Int16Weights& strip = few.weights;
  const std::uint32_t* words = strip.words + column;
  const Vector inverses = hn::Load(Floats(), strip.inverses + column);
  const auto* x = static_cast<const std::int32_t*>(few.x);
  IntegerVector sums[kRows][2];
  zero_sums(sums);
  const auto add_term = [&](auto half) HWY_ATTR {
    const auto pairs = hn::BitCast(Halves(), weight_pairs(Weight::term(hn::Load(Words(), words), half), inverses));
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) add_pairs(pairs, x[r], sums[r]);
    x += kRows;
  };
  for (int i = strip.terms / Weight::kTerms; i > 0; --i, words += kPanel) {
    prefetch_ahead(words);
    add_term(hwy::SizeTag<0>());
    if constexpr (Weight::kTerms == 2) add_term(hwy::SizeTag<1>());
  }
  if (strip.terms % Weight::kTerms != 0) add_term(hwy::SizeTag<0>());
  add_all(sums, few.strips, few.totals + column);
}

template <class Weight, int kRows>
void multiply_few(const Int16FewRows& few) {
  if constexpr (kRows > 0) {
    if (few.rows != kRows) return multiply_few<Weight, kRows - 1>(few);
    for (int column = 0; column < kPanel; column += kLanes) multiply_few_tile<Weight, kRows>(few, column);
  }
}

template <class Weight>
constexpr LinearInt16Kernels::Weights kWeights = {snap_weights<Weight>, multiply_few<Weight, kFewRows>};

constexpr LinearInt16Kernels kLinearInt16 = {.target = kTarget,
                                             .rows = kTileRows,
                                             .few_rows = kFewRows,
                                             .activation_bytes = sizeof(std::int32_t),
                                             .weight_bytes = kPanel * sizeof(std::int32_t),
                                             .largest_bits = largest_bits,
                                             .snap_activations = snap_activations,
                                             .multiply = multiply_rows<kTileRows>,
                                             .round = round_panel,
                                             .bf16 = kWeights<Bf16Pair>,
                                             .f16 = kWeights<F16Pair>,
                                             .f32 = kWeights<F32Word>};
static_assert(kLinearInt16.rows <= kMaxInt16Rows && kLinearInt16.weight_bytes <= kMaxInt16TermBytes);

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearInt16Kernels* linear_int16_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, int16_linear::kLinearInt16);
}

}  // namespace reprofuse::cpu
#endif
