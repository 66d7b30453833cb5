// The linear layer of int16-1 for every instruction set with a fused multiply-add, from one source: Highway compiles
// this file once per target. With digits X = 256 x0 + x1 and W = 256 w0 + w1 a term is x0 W + x1 w0: two products of
// pairs of 16-bit integers for each pair of terms, whose sums over a block of terms fit 32 bits. A word holds W + 128:
// sums start below zero by what that adds to them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/int16/simd.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"

#if REPROFUSE_SIMD_TARGET
#include "kernels/cpu/linear/int16/sums-inl.hpp"

static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear {

using Halves = hn::ScalableTag<std::int16_t>;
using HalfVector = hn::Vec<Halves>;

// Tiles of kLanes columns: one register of sums for each row, two where the halves of a product are added apart.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 12;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 8;
#endif
constexpr int kPrefetchRows = 4;  // from more rows on arithmetic takes longer than memory

// Packed rows are [pairs of terms][rows] of two words: both x0, then both x1.
inline std::int32_t snap_activations(const Int16Activations& strip) {
  auto* packed = static_cast<std::int32_t*>(strip.packed) + 2 * strip.row;
  const Vector inverse = hn::Set(Floats(), strip.inverse);
  const int terms = round_up(strip.terms, kInt16Alignment);
  IntegerVector sum = hn::Zero(Integers());
  HWY_ALIGN std::int32_t words[kLanes];
  for (int k = 0; k < terms; k += kLanes) {
    const IntegerVector x = snap_activation_lanes(strip.x + k, strip.terms - k, inverse);
    const IntegerVector high = hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128)));
    const IntegerVector low = hn::Sub(x, hn::ShiftLeft<8>(high));
    sum = hn::Add(sum, high);
    const auto of_pair = [](IntegerVector digits) HWY_ATTR { return pair_up(hn::DupEven(digits), hn::DupOdd(digits)); };
    hn::Store(hn::OddEven(of_pair(low), of_pair(high)), Integers(), words);
    const int count = HWY_MIN(kLanes, terms - k);
    for (int i = 0; i < count; i += 2) std::memcpy(packed + (k + i) * strip.rows, words + i, 2 * sizeof(words[0]));
  }
  return -kInt16WeightOffset * hn::GetLane(hn::SumOfLanes(Integers(), sum));
}

// The sums of one row and kLanes columns.
HWY_INLINE void add_pairs(HalfVector weights, std::int32_t x, IntegerVector (&sums)[2]) {
  const auto pair = hn::BitCast(Halves(), hn::Set(Integers(), x));
  sums[0] = hn::ReorderWidenMulAccumulate(Integers(), weights, pair, sums[0], sums[1]);
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const Int16Tile& tile, int column) {
  const auto* x = static_cast<const std::int32_t*>(tile.x);
  const std::uint32_t* weights = tile.weights + column;
  IntegerVector sums[kRows][2];
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(Integers());
  for (int k = 0; k < tile.terms; k += 2, x += 2 * kRows, weights += kPanel) {
    if constexpr (kRows <= kPrefetchRows) prefetch_ahead<4096, 3>(weights);
    const auto whole = hn::BitCast(Halves(), hn::Load(Words(), weights));
    const auto high = hn::ShiftRight<8>(whole);
    HWY_UNROLL(12)
    for (int r = 0; r < kRows; ++r) {
      add_pairs(whole, x[2 * r], sums[r]);
      add_pairs(high, x[2 * r + 1], sums[r]);
    }
  }
  HWY_UNROLL(12)
  for (int r = 0; r < kRows; ++r) {
    const IntegerVector start = hn::Set(Integers(), tile.strips[r].start);
    add_shifted(hn::Add(start, hn::RearrangeToOddPlusEven(sums[r][0], sums[r][1])), tile.strips[r].shift,
                tile.totals + r * kPanel + column);
  }
}

template <int kRows>
void multiply_rows(const Int16Tile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    for (int column = 0; column < kPanel; column += kLanes) multiply_tile<kRows>(tile, column);
  }
}

constexpr LinearInt16Kernels kLinearInt16 = {.target = kTarget,
                                             .rows = kTileRows,
                                             .terms_alignment = kInt16Alignment,
                                             .activation_bytes = sizeof(std::int32_t),
                                             .largest_bits = largest_bits,
                                             .snap_activations = snap_activations,
                                             .multiply = multiply_rows<kTileRows>,
                                             .round = round_panel};

#if HWY_TARGET == HWY_NEON
// Products of bytes: SDOT adds four of them to each 32-bit lane, both factors signed.
namespace dot {

#define REPROFUSE_DOT [[gnu::target("arch=armv8.2-a+crypto+dotprod")]]  // the rest of the file runs on machines without

// Packed rows are [quads][rows].
inline std::int32_t snap_activations(const Int16Activations& strip) {
  auto* to = static_cast<std::uint8_t*>(strip.packed) + strip.row * kQuadBytes;
  snap_quads(strip, kInt16Alignment, [&](int quad, const std::uint8_t* bytes) {
    std::memcpy(to + quad * strip.rows * kQuadBytes, bytes, kQuadBytes);
  });
  return 0;
}

template <int kRows>
REPROFUSE_DOT HWY_NOINLINE void multiply_tile(const Int16Tile& tile, int column) {
  const auto* x = static_cast<const std::int8_t*>(tile.x);
  const std::uint32_t* weights = tile.weights + column;
  IntegerVector high[kRows], mixed[kRows];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) high[r] = mixed[r] = hn::Zero(Integers());
  for (int k = 0; k < tile.terms; k += kQuad, x += kRows * kQuadBytes, weights += 2 * kPanel) {
    const uint8x16_t first = hn::BitCast(Bytes(), hn::Load(Words(), weights)).raw;
    const uint8x16_t second = hn::BitCast(Bytes(), hn::Load(Words(), weights + kPanel)).raw;
    const int8x16_t w_low = vreinterpretq_s8_u8(veorq_u8(vtrn1q_u8(first, second), vdupq_n_u8(kInt16WeightOffset)));
    const int8x16_t w_high = vreinterpretq_s8_u8(vtrn2q_u8(first, second));
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const int8x8_t digits = vld1_s8(x + r * kQuadBytes);
      high[r].raw = vdotq_lane_s32(high[r].raw, w_high, digits, 1);
      mixed[r].raw = vdotq_lane_s32(mixed[r].raw, w_low, digits, 1);
      mixed[r].raw = vdotq_lane_s32(mixed[r].raw, w_high, digits, 0);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r)
    add_shifted(hn::Add(hn::ShiftLeft<8>(high[r]), mixed[r]), tile.strips[r].shift, tile.totals + r * kPanel + column);
}

template <int kRows>
void multiply_rows(const Int16Tile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    for (int column = 0; column < kPanel; column += kLanes) multiply_tile<kRows>(tile, column);
  }
}

constexpr LinearInt16Kernels kLinearInt16 = {.target = "neon dot",
                                             .rows = kTileRows,
                                             .terms_alignment = kInt16Alignment,
                                             .activation_bytes = kQuadBytes / kQuad,
                                             .largest_bits = largest_bits,
                                             .snap_activations = snap_activations,
                                             .multiply = multiply_rows<kTileRows>,
                                             .round = round_panel};

}  // namespace dot
#endif

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearInt16Kernels* linear_int16_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, int16_linear::kLinearInt16);
}

const LinearInt16Kernels* linear_int16_dot() {
  REPROFUSE_IF_NEON(return &N_NEON::int16_linear::dot::kLinearInt16;)
  return nullptr;
}

}  // namespace reprofuse::cpu
#endif
