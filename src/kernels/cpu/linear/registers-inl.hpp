// What the contracts do alike in one target's registers: widening the packed words of a panel and, where sums are of
// integers, snapping activations, adding 32-bit sums to 64-bit totals, and the one rounding at the end. Each file that
// Highway compiles once per target includes this once per target: hence no guard.
#include <cstdint>
#include <cstring>

#include "kernels/cpu/linear/panels.hpp"
#include "kernels/cpu/vectors-inl.hpp"
#include "numerics/float_ops.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

using Words = hn::ScalableTag<std::uint32_t>;
using WordVector = hn::Vec<Words>;
static_assert(kPanel % kLanes == 0);

// How a packed word becomes weights. A pair holds term k in its low and term k + 1 in its high half.
struct Bf16Pair {
  static constexpr int kTerms = 2;
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<0>) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(words));
  }
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<1>) {
    return hn::BitCast(Floats(), hn::And(words, hn::Set(Words(), 0xffff0000U)));
  }
};

// Sign and fields move down three places together; the product corrects the exponent and is exact.
struct F16Pair {
  static constexpr int kTerms = 2;
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<0>) {
    return term(hn::ShiftLeft<16>(words), hwy::SizeTag<1>());
  }
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<1>) {
    const hn::RebindToSigned<Words> ints;
    const auto moved = hn::ShiftRight<3>(hn::BitCast(ints, words));
    const auto fields = hn::And(hn::BitCast(Words(), moved), hn::Set(Words(), 0x8fffe000U));
    return hn::Mul(hn::BitCast(Floats(), fields), hn::Set(Floats(), 0x1p112F));
  }
};

struct F32Word {
  static constexpr int kTerms = 1;
  static HWY_INLINE Vector term(WordVector words, hwy::SizeTag<0>) { return hn::BitCast(Floats(), words); }
};

// Integers.
using Integers = hn::ScalableTag<std::int32_t>;
using IntegerVector = hn::Vec<Integers>;
using HalfIntegers = hn::Half<Integers>;
using Totals = hn::ScalableTag<std::int64_t>;
using TotalVector = hn::Vec<Totals>;
using Bytes = hn::ScalableTag<std::uint8_t>;

constexpr int kQuad = 4;  // terms in a lane, where bytes are multiplied

// Of the magnitudes.
inline std::uint32_t largest_bits(const float* x, std::int64_t k) {
  const WordVector magnitude = hn::Set(Words(), 0x7fffffffU);
  WordVector largest = hn::Zero(Words());
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes)
    largest = hn::Max(largest, hn::And(hn::BitCast(Words(), hn::LoadU(Floats(), x + i)), magnitude));
  std::uint32_t result = hn::GetLane(hn::MaxOfLanes(Words(), largest));
  for (; i < k; ++i) result = HWY_MAX(result, magnitude_bits(x[i]));
  return result;
}

// rint(x * scale) of the activations from x on, zeros past the last of `terms`.
HWY_INLINE IntegerVector snap_activation_lanes(const float* x, int terms, Vector scale) {
  if (terms >= kLanes) return hn::NearestInt(hn::Mul(hn::LoadU(Floats(), x), scale));
  HWY_ALIGN float padded[kLanes] = {};
  for (int i = 0; i < terms; ++i) padded[i] = x[i];
  return hn::NearestInt(hn::Mul(hn::Load(Floats(), padded), scale));
}

// Lanes of two 16-bit integers, `low` in the lower half.
HWY_INLINE IntegerVector pair_up(IntegerVector low, IntegerVector high) {
  return hn::Or(hn::And(low, hn::Set(Integers(), 0xffff)), hn::ShiftLeft<16>(high));
}

// Adds widen(h) to kLanes totals: h takes one half of each register of sums, and widen makes 64-bit numbers of them.
template <class Widen>
HWY_INLINE void add_to_totals(const Widen& widen, std::int64_t* totals) {
  const Totals wide;
  const auto lower = [](IntegerVector v) HWY_ATTR { return hn::PromoteTo(Totals(), hn::LowerHalf(HalfIntegers(), v)); };
  const auto upper = [](IntegerVector v) HWY_ATTR { return hn::PromoteTo(Totals(), hn::UpperHalf(HalfIntegers(), v)); };
  hn::Store(hn::Add(hn::Load(wide, totals), widen(lower)), wide, totals);
  hn::Store(hn::Add(hn::Load(wide, totals + kLanes / 2), widen(upper)), wide, totals + kLanes / 2);
}

// To binary32, rounded once. From 2^53 on, binary64 would round first: there the 11 lowest bits, which are far below
// the last place of the result, become one that says whether any was set.
template <class Wide>
HWY_INLINE auto round_sums(Wide wide, const std::int64_t* totals) {
  const hn::RebindToFloat<Wide> doubles;
  const auto sum = hn::Load(wide, totals);
  const auto low = hn::Set(wide, 0x7ff);
  const auto sticky = hn::AndNot(low, hn::Or(sum, hn::Add(hn::And(sum, low), low)));
  const auto is_large = hn::Ne(hn::ShiftRight<53>(sum), hn::ShiftRight<63>(sum));
  return hn::DemoteTo(hn::Half<Floats>(), hn::ConvertTo(doubles, hn::IfThenElse(is_large, sticky, sum)));
}

// float(total) * 2^(row + column) for every column of a panel: in two steps, as the contracts say.
inline void round_totals(const std::int64_t* totals, int row, const std::int32_t* columns, float* results) {
  const auto power_of_two = [](IntegerVector exponent) HWY_ATTR {
    return hn::BitCast(Floats(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(Integers(), 127))));
  };
  for (int c = 0; c < kPanel; c += kLanes) {
    const auto lower = round_sums(Totals(), totals + c);
    const auto upper = round_sums(Totals(), totals + c + kLanes / 2);
    const IntegerVector shift = hn::Add(hn::Load(Integers(), columns + c), hn::Set(Integers(), row));
    const IntegerVector first = hn::Min(hn::Max(shift, hn::Set(Integers(), -126)), hn::Set(Integers(), 127));
    const Vector scaled = hn::Mul(hn::Combine(Floats(), upper, lower), power_of_two(first));
    hn::Store(hn::Mul(scaled, power_of_two(hn::Sub(shift, first))), Floats(), results + c);
  }
}

// One line of weights, a while before few rows meet it: what is done with them fills the scheduler before enough loads
// are under way. Where little is done, the first cache is the place.
template <int kBytes = 8192, int kLocality = 2>
HWY_INLINE void prefetch_ahead(const std::uint32_t* words) {
  __builtin_prefetch(reinterpret_cast<const char*>(words) + kBytes, 0, kLocality);
}

#if HWY_TARGET == HWY_AVX3

// AVX-512 with VNNI: vpdpbusd adds four products of unsigned and signed bytes to each 32-bit lane, so four terms of a
// column share a lane. For files that have the instruction in their attributes.
static_assert(kLanes == kPanel);

// As assembly: compilers copy and spill the sums of a tile around the intrinsic.
HWY_INLINE void add_byte_products(IntegerVector& sum, WordVector weights, IntegerVector x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(x.raw));
}

// The same bytes of x, four at `x`, for every lane.
HWY_INLINE void add_byte_products(IntegerVector& sum, WordVector weights, const std::uint8_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum.raw)
      : "v"(weights.raw), "m"(*reinterpret_cast<const std::uint8_t(*)[kQuad]>(x)));
}

HWY_INLINE IntegerVector repeat_quad(const std::uint8_t* x) {
  std::int32_t four_terms;
  std::memcpy(&four_terms, x, sizeof(four_terms));
  return hn::Set(Integers(), four_terms);
}

#endif

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
