// Digits of integers in vectors, and sums of their products, by contracts int16-1 and exact-2. Only simd.cpp includes
// this, once per target: hence no guard.

#include "kernels/cpu/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::integer_attention {

using int16::kKeyBlock;
using Words = hn::ScalableTag<std::uint32_t>;
using Integers = hn::ScalableTag<std::int32_t>;
using Halves = hn::ScalableTag<std::int16_t>;
using IntegerVector = hn::Vec<Integers>;
using HalfVector = hn::Vec<Halves>;
static_assert(kKeyGroup % kLanes == 0);

// Sums of products of 16-bit integers, two to a lane.
HWY_INLINE void add_pairs(HalfVector pairs, std::int32_t pair, IntegerVector (&sums)[2]) {
  const auto both = hn::BitCast(Halves(), hn::Set(Integers(), pair));
  sums[0] = hn::ReorderWidenMulAccumulate(Integers(), pairs, both, sums[0], sums[1]);
}

HWY_INLINE HalfVector high_digits(HalfVector x) {
  return hn::ShiftRight<8>(hn::Add(x, hn::Set(Halves(), 128)));
}

// Digits of integers, in pairs that a register repeats.
template <typename N, int kCount>
struct DigitPairs {
  HWY_ALIGN std::int16_t digits[N::kDigits][kCount];

  std::int32_t pair(int digit, std::int64_t i) const {
    std::int32_t both;
    std::memcpy(&both, digits[digit] + i, sizeof(both));
    return both;
  }
  void set(std::int64_t i, std::int32_t x) {
    for (int digit = N::kDigits - 1; digit > 0; --digit) {
      digits[digit][i] = static_cast<std::int16_t>(lowest_digit(x));
      x = upper_digits(x);
    }
    digits[0][i] = static_cast<std::int16_t>(x);
  }
  std::int32_t integer(std::int64_t i) const {
    std::int32_t x = digits[0][i];
    for (int digit = 1; digit < N::kDigits; ++digit) x = 256 * x + digits[digit][i];
    return x;
  }
};

// The digits of kLanes integers.
template <typename N, int kCount>
HWY_INLINE void store_digits(IntegerVector x, DigitPairs<N, kCount>& to, std::int64_t i) {
  const hn::Rebind<std::int16_t, Integers> narrow;
  HWY_UNROLL(2)
  for (int digit = N::kDigits - 1; digit > 0; --digit) {
    const IntegerVector upper = hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128)));
    hn::StoreU(hn::DemoteTo(narrow, hn::Sub(x, hn::ShiftLeft<8>(upper))), narrow, to.digits[digit] + i);
    x = upper;
  }
  hn::StoreU(hn::DemoteTo(narrow, x), narrow, to.digits[0] + i);
}

// Keys or values as 16-bit integers: of three digits the upper two, and the lowest one beside them.
template <typename N>
struct Elements {
  HalfVector upper, high, middle, low;

  HWY_INLINE Elements(const std::int16_t* from, const std::int8_t* lows) {
    upper = hn::LoadU(Halves(), from);
    high = high_digits(upper);
    if constexpr (N::kDigits == 3) {
      const hn::Rebind<std::int8_t, Halves> bytes;
      middle = hn::Sub(upper, hn::ShiftLeft<8>(high));
      low = hn::PromoteTo(Halves(), hn::LoadU(bytes, lows));
    }
  }
};

// Sums of products, which the contract puts together.
template <typename N>
struct Sums {
  static constexpr int kCount = N::kDigits == 2 ? 1 : 3;
  IntegerVector of[kCount][2];

  HWY_INLINE Sums() {  // written out, because a constructor of the compiler's own lacks the attributes of the target
    for (auto& sum : of) sum[0] = sum[1] = hn::Zero(Integers());
  }
  template <int kCount2>
  HWY_INLINE void add(const Elements<N>& w, const DigitPairs<N, kCount2>& x, std::int64_t i) {
    add_pairs(w.upper, x.pair(0, i), of[0]);
    add_pairs(w.high, x.pair(1, i), of[0]);
    if constexpr (N::kDigits == 3) {
      add_pairs(w.low, x.pair(0, i), of[1]);
      add_pairs(w.middle, x.pair(1, i), of[1]);
      add_pairs(w.upper, x.pair(2, i), of[2]);
      add_pairs(w.low, x.pair(1, i), of[2]);
    }
  }
  HWY_INLINE IntegerVector sum(int i) const { return hn::RearrangeToOddPlusEven(of[i][0], of[i][1]); }
  // kWide: the trailing sum needs more than 32 bits.
  template <bool kWide>
  HWY_INLINE Vector value() const {
    const Vector leading = hn::ConvertTo(Floats(), sum(0));
    if constexpr (N::kDigits == 2)
      return leading;
    else {
      Vector trailing;
      if constexpr (kWide) {
        HWY_ALIGN std::int32_t middle[kLanes], last[kLanes];
        HWY_ALIGN float rounded[kLanes];
        hn::Store(sum(1), Integers(), middle);
        hn::Store(sum(2), Integers(), last);
        for (int i = 0; i < kLanes; ++i) rounded[i] = int16::to_float(std::int64_t{256} * middle[i] + last[i]);
        trailing = hn::Load(Floats(), rounded);
      } else {
        trailing = hn::ConvertTo(Floats(), hn::Add(hn::ShiftLeft<8>(sum(1)), sum(2)));
      }
      return hn::MulAdd(leading, hn::Set(Floats(), 65536.0F), trailing);
    }
  }
};

}  // namespace reprofuse::cpu::HWY_NAMESPACE::integer_attention
HWY_AFTER_NAMESPACE();
