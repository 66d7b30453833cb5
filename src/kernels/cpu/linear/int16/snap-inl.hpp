// How one target's registers snap operands, add sums and round them. Each file that Highway compiles once per target
// includes this once per target: hence no guard.
#include "kernels/cpu/linear/weight_words-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear {

using Integers = hn::ScalableTag<std::int32_t>;
using IntegerVector = hn::Vec<Integers>;
using Totals = hn::ScalableTag<std::int64_t>;
using HalfIntegers = hn::Half<Integers>;

inline std::uint32_t largest_bits(const float* x, std::int64_t k) {
  const WordVector magnitude = hn::Set(Words(), 0x7fffffffU);
  WordVector largest = hn::Zero(Words());
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes)
    largest = hn::Max(largest, hn::And(hn::BitCast(Words(), hn::LoadU(Floats(), x + i)), magnitude));
  std::uint32_t result = hn::GetLane(hn::MaxOfLanes(Words(), largest));
  for (; i < k; ++i) result = HWY_MAX(result, float_bits(x[i]) & 0x7fffffffU);
  return result;
}

// The activations from x on, zeros past the last of `terms`.
HWY_INLINE IntegerVector snap_lanes(const float* x, int terms, Vector inverse) {
  if (terms >= kLanes) return hn::NearestInt(hn::Mul(hn::LoadU(Floats(), x), inverse));
  HWY_ALIGN float padded[kLanes] = {};
  for (int i = 0; i < terms; ++i) padded[i] = x[i];
  return hn::NearestInt(hn::Mul(hn::Load(Floats(), padded), inverse));
}

// The low bits of the words are the integers, plus what `offset` is above 1.5 * 2^23: the sum rounds at the units
// place.
HWY_INLINE WordVector snap_weight_lanes(Vector weights, Vector inverses, float offset) {
  return hn::BitCast(Words(), hn::MulAdd(weights, inverses, hn::Set(Floats(), offset)));
}

// kLanes sums of a strip of one row, shifted to their place.
HWY_INLINE void add_to_totals(IntegerVector sums, int shift, std::int64_t* totals) {
  const Totals wide;
  const auto add_half = [&](auto half, std::int64_t* to) HWY_ATTR {
    const auto sum = hn::ShiftLeftSame(hn::PromoteTo(wide, half), shift);
    hn::Store(hn::Add(hn::Load(wide, to), sum), wide, to);
  };
  add_half(hn::LowerHalf(HalfIntegers(), sums), totals);
  add_half(hn::UpperHalf(HalfIntegers(), sums), totals + kLanes / 2);
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

// int16::result of every column.
inline void round_panel(const Int16Sums& sums) {
  const Totals wide;
  const auto power_of_two = [](IntegerVector exponent) HWY_ATTR {
    return hn::BitCast(Floats(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(Integers(), 127))));
  };
  const IntegerVector row = hn::Set(Integers(), sums.row_unit - 270);
  for (int c = 0; c < kPanel; c += kLanes) {
    const auto lower = round_sums(wide, sums.totals + c);
    const auto upper = round_sums(wide, sums.totals + c + kLanes / 2);
    const IntegerVector shift = hn::Add(hn::Load(Integers(), sums.weight_units + c), row);
    const IntegerVector first = hn::Min(hn::Max(shift, hn::Set(Integers(), -126)), hn::Set(Integers(), 127));
    const Vector scaled = hn::Mul(hn::Combine(Floats(), upper, lower), power_of_two(first));
    hn::Store(hn::Mul(scaled, power_of_two(hn::Sub(shift, first))), Floats(), sums.results + c);
  }
}

// One line of weights, a while before few rows meet it: widening and snapping fill the scheduler before enough loads
// are under way.
HWY_INLINE void prefetch_ahead(const std::uint32_t* words) {
  constexpr int kAheadBytes = 8192;
  __builtin_prefetch(reinterpret_cast<const char*>(words) + kAheadBytes, 0, 2);
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_linear
HWY_AFTER_NAMESPACE();
