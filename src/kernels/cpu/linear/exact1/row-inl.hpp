// exact-1 in one target's registers: how all of its kernels snap weights and round sums, and the kernel for a single
// row, whose weights are not worth converting to binary64: 16-bit products, two to a 32-bit sum. simd.cpp and vnni.cpp
// include this once per target: hence no guard.
#include "kernels/cpu/linear/registers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE {

// The low 24 bits are W + 2^22: exact1::snap_weight.
HWY_INLINE WordVector snap_weight_lanes(Vector weights, Vector scales) {
  return hn::BitCast(Words(), hn::MulAdd(weights, scales, hn::Set(Floats(), exact1::kWeightOffset)));
}

// exact1::result of every column.
inline void round_panel(const ExactSums& sums) {
  round_totals(sums.totals, sums.activation_exponent - exact1::kActivationBits - exact1::kWeightBits,
               sums.weight_exponents, sums.results);
}

// A single row. With X = upper * 2^8 + low and a weight likewise, a term without its product of lowest digits is
// upper * upper * 2^16 + (upper * low + low * upper) * 2^8. The activation's upper part meets the weight's as two
// digits, middle and high, so that 32 bits hold sums of many terms.
using Halves = hn::ScalableTag<std::int16_t>;
using HalfVector = hn::Vec<Halves>;

// Terms whose products 32-bit sums hold. A weight's lowest digit is a byte, the activation's is signed.
constexpr int kRunTerms = 128;
constexpr std::int64_t kMaxActivation = 127 * 0x10101;
static_assert(kRunTerms * ((kMaxActivation >> 8) * 255 + 128 * std::int64_t{INT16_MAX}) < std::int64_t{1} << 31);

HWY_INLINE IntegerVector low_digit(IntegerVector x) {
  return hn::ShiftRight<24>(hn::ShiftLeft<24>(x));
}

// A packed strip of a single row, its terms rounded up to an even number. [terms] low and upper part of the even ones,
// upper and low of the odd ones; [terms] middle digits of two terms, then their high ones; the sum of all, in 64 bits.
constexpr int packed_terms(int terms) {
  return terms + terms % 2;
}

// Of at most kRowTerms, so that 32 bits hold their sum.
constexpr int kRowTerms = 256;
static_assert(kRowTerms * kMaxActivation < std::int64_t{1} << 31);

inline std::int64_t pack_row(const ActivationStrip& strip) {
  const int terms = packed_terms(strip.terms);
  auto* x_mixed = static_cast<std::int32_t*>(strip.packed);
  std::int32_t* x_digits = x_mixed + terms;
  const Vector scale = hn::Set(Floats(), strip.scale);
  IntegerVector sum = hn::Zero(Integers());
  HWY_ALIGN std::int32_t mixed[kLanes];
  HWY_ALIGN std::int32_t digits[kLanes];
  for (int k = 0; k < terms; k += kLanes) {
    const IntegerVector x = snap_activation_lanes(strip.x + k, strip.terms - k, scale);
    const IntegerVector low = low_digit(x);
    const IntegerVector upper = hn::ShiftRight<8>(hn::Sub(x, low));
    const IntegerVector middle = low_digit(upper);
    const IntegerVector high = hn::ShiftRight<8>(hn::Sub(upper, middle));
    hn::Store(hn::OddEven(pair_up(upper, low), pair_up(low, upper)), Integers(), mixed);
    hn::Store(
        hn::OddEven(pair_up(hn::DupEven(high), hn::DupOdd(high)), pair_up(hn::DupEven(middle), hn::DupOdd(middle))),
        Integers(), digits);
    const auto bytes = sizeof(std::int32_t) * HWY_MIN(kLanes, terms - k);
    std::memcpy(x_mixed + k, mixed, bytes);
    std::memcpy(x_digits + k, digits, bytes);
    sum = hn::Add(sum, x);
  }
  return *reinterpret_cast<std::int64_t*>(x_digits + terms) = hn::GetLane(hn::SumOfLanes(Integers(), sum));
}

// A weight of 16 bits is below 2^22 in magnitude once it is snapped, so that its upper part stays below 2^15 with the
// bias that snapping leaves on it. A binary32 weight is taken without.
template <class Weight>
constexpr std::int32_t kRowBias = Weight::kTerms == 2 ? exact1::kWeightBias : 0;

// The upper and the low part of each weight, as the bytes of `order` say.
template <class Weight, std::size_t kTerm>
HWY_INLINE HalfVector snap_halves(const std::uint32_t* words, Vector scales,
                                  hn::Vec<hn::Repartition<std::uint8_t, Words>> order) {
  const WordVector weights = hn::Load(Words(), words);
  WordVector bits = snap_weight_lanes(Weight::term(weights, hwy::SizeTag<kTerm>()), scales);
  if constexpr (kRowBias<Weight> == 0) bits = hn::Sub(bits, hn::Set(Words(), std::uint32_t{exact1::kWeightBias}));
  const hn::Repartition<std::uint8_t, Words> bytes;
  return hn::BitCast(Halves(), hn::TableLookupBytesOr0(hn::BitCast(bytes, bits), order));
}

// Sums of products of 16-bit integers, two to a lane.
struct HalfProducts {
  IntegerVector sums[2];
  HWY_INLINE void add(HalfVector weights, std::int32_t x) {
    const auto both = hn::BitCast(Halves(), hn::Set(Integers(), x));
    sums[0] = hn::ReorderWidenMulAccumulate(Integers(), weights, both, sums[0], sums[1]);
  }
  HWY_INLINE IntegerVector in_order() const { return hn::RearrangeToOddPlusEven(sums[0], sums[1]); }
};

HWY_INLINE HalfProducts no_products() {
  return {{hn::Zero(Integers()), hn::Zero(Integers())}};
}

template <class Weight>
HWY_NOINLINE void multiply_row(const FewRows& few, int column) {
  alignas(16) static constexpr std::uint8_t kUpperLow[16] = {1, 2,  0, 0x80, 5,  6,  4,  0x80,
                                                             9, 10, 8, 0x80, 13, 14, 12, 0x80};
  alignas(16) static constexpr std::uint8_t kLowUpper[16] = {0, 0x80, 1, 2,  4,  0x80, 5,  6,
                                                             8, 0x80, 9, 10, 12, 0x80, 13, 14};
  const hn::Repartition<std::uint8_t, Words> bytes;
  const auto upper_low = hn::LoadDup128(bytes, kUpperLow);
  const auto low_upper = hn::LoadDup128(bytes, kLowUpper);
  const int terms = few.weights.terms;
  const auto* x_mixed = static_cast<const std::int32_t*>(few.x);
  const std::int32_t* x_digits = x_mixed + packed_terms(terms);
  const std::uint32_t* words = few.weights.words + column;
  const Vector scales = hn::Load(Floats(), few.weights.scales + column);
  std::int64_t* totals = few.totals + column;

  constexpr int kSecondRow = Weight::kTerms == 1 ? kPanel : 0;
  for (int begin = 0; begin < terms; begin += kRunTerms) {
    HalfProducts mixed = no_products(), middle = no_products(), high = no_products();
    const int end = HWY_MIN(terms, begin + kRunTerms);
    for (int k = begin; k < end; k += 2, words += kPanel + kSecondRow) {
      prefetch_ahead(words);
      if constexpr (kSecondRow != 0) prefetch_ahead(words + kSecondRow);
      const std::uint32_t* second_words = words + (k + 1 < end ? kSecondRow : 0);  // past the end: times zero
      const HalfVector first = snap_halves<Weight, 0>(words, scales, upper_low);
      const HalfVector second = snap_halves<Weight, Weight::kTerms - 1>(second_words, scales, low_upper);
      const HalfVector upper = hn::OddEven(second, first);
      mixed.add(first, x_mixed[k]);
      mixed.add(second, x_mixed[k + 1]);
      middle.add(upper, x_digits[k]);
      high.add(upper, x_digits[k + 1]);
    }
    const IntegerVector sums[] = {mixed.in_order(), middle.in_order(), high.in_order()};
    add_to_totals(
        [&](auto half) HWY_ATTR {
          const TotalVector upper = hn::Add(hn::ShiftLeft<8>(half(sums[2])), half(sums[1]));
          return hn::ShiftLeft<8>(hn::Add(hn::ShiftLeft<8>(upper), half(sums[0])));
        },
        totals);
  }
  if constexpr (kRowBias<Weight> != 0) {
    const std::int64_t sum = *reinterpret_cast<const std::int64_t*>(x_digits + packed_terms(terms));
    for (int c = 0; c < kLanes; ++c) totals[c] -= kRowBias<Weight> * sum;
  }
}

}  // namespace reprofuse::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
