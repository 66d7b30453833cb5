// The linear layer of int16-1 for AVX-512 with VNNI where additions have ports beside those of products. Of a term, x1
// W + x0 w1 by digits, x1 and w1 the high ones, the first product takes as long as two products of bytes. Winograd's
// inner product halves that: for terms a and b, x1a Wa + x1b Wb = (x1a + Wb)(x1b + Wa) - x1a x1b - Wa Wb, and the last
// two are known of a row and of a column alone. Sums are right modulo 2^32, and those of a strip fit 32 bits.

// One target: AVX-512 as Highway knows it; vnni.cpp says why.
#define REPROFUSE_NO_AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/int16/winograd.cpp"
#include <cstring>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/linear/int16/kernels.hpp"
#include "kernels/cpu/linear/panels.hpp"

#if HWY_TARGET == HWY_AVX3
#include "kernels/cpu/linear/int16/sums-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear::winograd {

using Halves = hn::ScalableTag<std::int16_t>;
using HalfVector = hn::Vec<Halves>;

constexpr int kTileRows = 16;
constexpr int kMinRows = 8;  // fewer do not repay finding corrections

static_assert(int16::kLargest + 127 < 1 << 15, "a weight and a digit of x fit 16 bits");

// Four terms of a packed row: high digits of terms 0 and 1, of terms 2 and 3, less what words have added to weights;
// low digits in the order 0, 2, 1, 3.
struct Quad {
  std::int16_t high_a[2], high_b[2];
  std::uint8_t low[kQuad];
};
static_assert(sizeof(Quad) == 12);

// Packed rows are [quads][rows].
inline std::int32_t snap_activations(const Int16Activations& strip) {
  alignas(16) static constexpr std::uint8_t kLows[16] = {0, 8, 4, 12, 0, 8, 4, 12, 0, 8, 4, 12, 0, 8, 4, 12};
  const hn::Rebind<std::int16_t, Integers> narrow;
  const auto lows = hn::LoadDup128(Bytes(), kLows);
  const Vector inverse = hn::Set(Floats(), strip.inverse);
  auto* to = static_cast<Quad*>(strip.packed) + strip.row;
  IntegerVector sum = hn::Zero(Integers()), high_sum = sum, products = sum;
  HWY_ALIGN std::int16_t high_digits[kLanes];
  HWY_ALIGN std::uint8_t low_digits[kLanes / kQuad][16];
  const int terms = round_up(strip.terms, kInt16Alignment);
  for (int k = 0; k < terms; k += kLanes) {
    const IntegerVector x = snap_activation_lanes(strip.x + k, strip.terms - k, inverse);
    const IntegerVector high = hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128)));
    sum = hn::Add(sum, x);
    high_sum = hn::Add(high_sum, high);
    products = hn::Add(products, hn::Mul(high, hn::Shuffle1032(high)));  // each of them twice
    hn::Store(hn::DemoteTo(narrow, hn::Sub(high, hn::Set(Integers(), kInt16WeightOffset))), narrow, high_digits);
    hn::Store(hn::TableLookupBytes(hn::BitCast(Bytes(), x), lows), Bytes(), low_digits[0]);
    for (int quad = 0; quad < kLanes / kQuad && k + quad * kQuad < terms; ++quad, to += strip.rows) {
      std::memcpy(to->high_a, high_digits + quad * kQuad, sizeof(to->high_a));
      std::memcpy(to->high_b, high_digits + quad * kQuad + 2, sizeof(to->high_b));
      std::memcpy(to->low, low_digits[quad], sizeof(to->low));
    }
  }
  const auto total = [](IntegerVector v) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(Integers(), v)); };
  return -total(products) / 2 - kInt16WeightOffset * (total(sum) - 256 * total(high_sum));
}

// Corrections of a strip: sums of Wa Wb; then, for each quad, its high digits plus 128.
static_assert(kPanel * (1 + int16::kTermBlock / kQuad) <= kMaxInt16Corrections);

HWY_INLINE void add_pair_products(IntegerVector& sum, HalfVector a, HalfVector b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
}

// Four terms of one row and every column of the panel. One statement: compilers then leave the sums in registers.
HWY_INLINE void add_quad(IntegerVector& sum, HalfVector a, HalfVector b, WordVector high, const Quad& x) {
  HalfVector x_a, x_b;
  asm("vpbroadcastd %6, %1\n\t"
      "vpbroadcastd %7, %2\n\t"
      "vpaddw %4, %1, %1\n\t"
      "vpaddw %3, %2, %2\n\t"
      "vpdpwssd %1, %2, %0\n\t"
      "vpdpbusd %8%{1to16%}, %5, %0"
      : "+&v"(sum.raw), "=&v"(x_a.raw), "=&v"(x_b.raw)
      : "v"(a.raw), "v"(b.raw), "v"(high.raw), "m"(x.high_a), "m"(x.high_b), "m"(x.low));
}

void find_corrections(const std::uint32_t* words, int terms, std::uint32_t* corrections) {
  const HalfVector offset = hn::Set(Halves(), kInt16WeightOffset);
  IntegerVector products = hn::Zero(Integers());
  std::uint32_t* high = corrections + kPanel;
  for (int k = 0; k < terms; k += kQuad, words += 2 * kPanel, high += kPanel) {
    const HalfVector a = hn::Sub(hn::BitCast(Halves(), hn::Load(Words(), words)), offset);
    const HalfVector b = hn::Sub(hn::BitCast(Halves(), hn::Load(Words(), words + kPanel)), offset);
    add_pair_products(products, a, b);
    hn::Store(load_planes(words).high, Words(), high);
  }
  hn::Store(hn::BitCast(Words(), products), Words(), corrections);
}

template <int kRows>
HWY_NOINLINE void multiply_tile(const Int16Tile& tile) {
  const auto* x = static_cast<const Quad*>(tile.x);
  IntegerVector sums[kRows];
  const IntegerVector start = hn::Neg(hn::BitCast(Integers(), hn::Load(Words(), tile.corrections)));
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) sums[r] = start;
  const std::uint32_t *words = tile.weights, *highs = tile.corrections + kPanel;
  const std::byte* next = tile.next;
  for (int k = 0; k < tile.terms; k += kQuad, x += kRows, words += 2 * kPanel, highs += kPanel) {
    __builtin_prefetch(next, 0, 2);
    next += tile.next_bytes;
    const HalfVector a = hn::BitCast(Halves(), hn::Load(Words(), words));
    const HalfVector b = hn::BitCast(Halves(), hn::Load(Words(), words + kPanel));
    const WordVector high = hn::Load(Words(), highs);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) add_quad(sums[r], a, b, high, x[r]);
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r)
    add_shifted(hn::Add(sums[r], hn::Set(Integers(), tile.strips[r].start)), tile.strips[r].shift,
                tile.totals + r * kPanel);
}

template <int kRows>
void multiply_rows(const Int16Tile& tile) {
  if constexpr (kRows > 0) {
    if (tile.rows != kRows) return multiply_rows<kRows - 1>(tile);
    multiply_tile<kRows>(tile);
  }
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear::winograd
HWY_POP_ATTRIBUTES
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const LinearInt16Kernels* linear_int16_winograd() {
#if HWY_TARGETS & HWY_AVX3
  namespace winograd = N_AVX3::int16_linear::winograd;
  static const LinearInt16Kernels kTable = {.target = "avx512 vnni winograd",
                                            .rows = winograd::kTileRows,
                                            .terms_alignment = kInt16Alignment,
                                            .activation_bytes = sizeof(winograd::Quad) / kInt16Alignment,
                                            .largest_bits = linear_int16_vnni()->largest_bits,
                                            .snap_activations = winograd::snap_activations,
                                            .find_corrections = winograd::find_corrections,
                                            .multiply = winograd::multiply_rows<winograd::kTileRows>,
                                            .round = linear_int16_vnni()->round,
                                            .min_rows = winograd::kMinRows,
                                            .for_fewer = linear_int16_vnni()};
  return &kTable;
#else
  return nullptr;
#endif
}

}  // namespace reprofuse::cpu
#endif
