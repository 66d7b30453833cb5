// Attention by contracts int16-1 and exact-2 for every instruction set with a fused multiply-add, from one source:
// Highway compiles this file once per target. Of two digits, X = 256 x0 + x1 and W = 256 w0 + w1, a term is x0 W + x1
// w0. Of three, with upper digits U of W, it is x0 U + x1 w0, and 256 (x0 w2 + x1 w1) + x2 U + x1 w2. Products of pairs
// of 16-bit integers take two terms each. Lanes are keys for the scores, and elements of the head for the sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/integer/simd.cpp"
#include <algorithm>
#include <cfloat>
#include <cstring>
#include <limits>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "numerics/attention_integer.hpp"

#if REPROFUSE_SIMD_TARGET
static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

#include "kernels/cpu/attention/integer/digits-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::integer_attention {

constexpr int kTileLines = 4;
template <typename N>
constexpr int kStrip = N::kDigits == 2 ? 2 : 1;  // vectors of a pass over keys or elements: three digits have more sums
static_assert(kTileLines <= kMaxTileLines);

template <typename N>
struct Line {
  DigitPairs<N, int16::kMaxScoreTerms> query;
  DigitPairs<N, kKeyBlock> weights;
  HWY_ALIGN float scores[kKeyBlock];
  float factor;
  float max, sum, scale;
  float total_scale, next_scale;  // what merging multiplies by
};

template <typename N>
HWY_INLINE void snap_query(const AttentionTile& tile, int l, Line<N>& line) {
  const float* query = tile.lines[l].query;
  const std::int64_t head_dim = tile.block->head_dim;
  const std::int64_t whole = head_dim / kLanes * kLanes;
  auto largest_lanes = hn::Zero(Words());
  for (std::int64_t d = 0; d < whole; d += kLanes)
    largest_lanes = hn::Max(largest_lanes, hn::BitCast(Words(), hn::Abs(hn::LoadU(Floats(), query + d))));
  std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(Words(), largest_lanes));
  for (std::int64_t d = whole; d < head_dim; ++d) largest = std::max(largest, magnitude_bits(query[d]));
  const int unit = N::unit_byte(largest);
  line.factor = N::score_factor(tile.scale, unit);
  if (unit == int16::kNotFinite) {
    for (auto& digits : line.query.digits) std::fill_n(digits, head_dim, std::int16_t{0});
    return;
  }
  const float inverse = int16::inverse_unit(unit);
  for (std::int64_t d = 0; d < whole; d += kLanes)
    store_digits(hn::NearestInt(hn::Mul(hn::LoadU(Floats(), query + d), hn::Set(Floats(), inverse))), line.query, d);
  for (std::int64_t d = whole; d < head_dim; ++d) line.query.set(d, N::snap(query[d], inverse));
}

HWY_INLINE IntegerVector units_at(const std::uint8_t* const* units, int key) {
  const hn::Rebind<std::uint8_t, Integers> bytes;
  return hn::PromoteTo(Integers(), hn::LoadU(bytes, units[key / kKeyGroup] + key % kKeyGroup));
}

// The scores of kLines lines and kStrip vectors of keys, from `key` on.
template <typename N, int kLines>
HWY_NOINLINE void score_keys(const AttentionTile& tile, int key, Line<N>* lines) {
  const KeyBlock& block = *tile.block;
  const std::int16_t* keys[kStrip<N>];
  const std::int8_t* lows[kStrip<N>];
  Sums<N> sums[kLines][kStrip<N>];
  HWY_UNROLL(2)
  for (int v = 0; v < kStrip<N>; ++v) {
    const int at = key + v * kLanes, group = at / kKeyGroup;
    keys[v] = static_cast<const std::int16_t*>(block.keys[group]) + at % kKeyGroup * 2;
    if constexpr (N::kDigits == 3) lows[v] = block.key_lows[group] + at % kKeyGroup * 2;
  }
  for (std::int64_t d = 0, row = 0; d < block.head_dim; d += 2, row += block.page_size * 2) {
    HWY_UNROLL(2)
    for (int v = 0; v < kStrip<N>; ++v) {
      const Elements<N> elements(keys[v] + row, N::kDigits == 3 ? lows[v] + row : nullptr);
      HWY_UNROLL(4)
      for (int l = 0; l < kLines; ++l) sums[l][v].add(elements, lines[l].query, d);
    }
  }
  HWY_UNROLL(2)
  for (int v = 0; v < kStrip<N>; ++v) {
    const int at = key + v * kLanes;
    const Vector units = hn::BitCast(Floats(), hn::ShiftLeft<23>(units_at(block.key_units, at)));
    HWY_UNROLL(4)
    for (int l = 0; l < kLines; ++l) {
      const Vector sum = N::kDigits == 3 && block.head_dim > kNarrowDims ? sums[l][v].template value<true>()
                                                                         : sums[l][v].template value<false>();
      hn::Store(hn::Mul(hn::Mul(sum, units), hn::Set(Floats(), lines[l].factor)), Floats(), lines[l].scores + at);
    }
  }
}

HWY_INLINE auto visible(const AttentionTile& tile, int key) {
  const IntegerVector index = hn::Iota(Integers(), key);
  return hn::And(hn::Gt(index, hn::Set(Integers(), tile.first - 1)), hn::Lt(index, hn::Set(Integers(), tile.last)));
}

HWY_INLINE int first_vector(const AttentionTile& tile) {
  return tile.first / kLanes * kLanes;
}

// The largest unit of the tile's values.
HWY_INLINE int largest_value_unit(const AttentionTile& tile) {
  IntegerVector largest = hn::Set(Integers(), int16::kMinUnit);
  for (int key = first_vector(tile); key < tile.last; key += kLanes)
    largest = hn::Max(largest, hn::IfThenElseZero(visible(tile, key), units_at(tile.block->value_units, key)));
  return hn::GetLane(hn::MaxOfLanes(Integers(), largest));
}

// N::weight_factor in every lane.
template <typename N>
HWY_INLINE Vector weight_factors(const AttentionTile& tile, int key, int weight_unit) {
  const IntegerVector apart = hn::Max(hn::Sub(units_at(tile.block->value_units, key), hn::Set(Integers(), weight_unit)),
                                      hn::Set(Integers(), N::kMinWeightPower));
  const Vector power = hn::BitCast(Floats(), hn::ShiftLeft<23>(hn::Add(apart, hn::Set(Integers(), 127))));
  return hn::Mul(hn::Set(Floats(), N::kMaxWeight), power);
}

// N::exp2 in every lane.
template <typename N>
HWY_INLINE Vector exp2_nonpositive(Vector x) {
  const Floats d;
  x = hn::Max(x, hn::Set(d, int16::kExp2Min));
  const Vector shift = hn::Set(d, int16::kExp2Shift);
  const Vector shifted = hn::Add(x, shift);
  const Vector r = hn::Sub(x, hn::Sub(shifted, shift));
  Vector p = hn::Set(d, N::exp2_coefficient(N::kExp2Degree));
  HWY_UNROLL(8)
  for (int i = N::kExp2Degree - 1; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, N::exp2_coefficient(i)));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(Words(), shifted))));
}

// The integer that is nearest to a * b, as the low bits of a sum with `offset`.
HWY_INLINE IntegerVector rounded_product(Vector a, Vector b, float offset) {
  const Vector sum = hn::MulAdd(a, b, hn::Set(Floats(), offset));
  return hn::Sub(hn::BitCast(Integers(), sum), hn::Set(Integers(), static_cast<std::int32_t>(float_bits(offset))));
}

// The unit that the weights of a line count in.
template <typename N>
HWY_INLINE int weight_unit_of(const AttentionTile& tile, const Line<N>& line, Vector largest, int largest_unit) {
  if constexpr (!N::kFitsWeights)
    return largest_unit;
  else {
    const Vector least = hn::Set(Floats(), -N::kMaxFit);
    Vector fit = least;
    for (int key = first_vector(tile); key < tile.last; key += kLanes) {
      const Vector log2 =
          hn::Max(hn::Sub(hn::Load(Floats(), line.scores + key), largest), hn::Set(Floats(), int16::kExp2Min));
      const IntegerVector apart = hn::Sub(units_at(tile.block->value_units, key), hn::Set(Integers(), largest_unit));
      const auto seen = hn::RebindMask(Floats(), visible(tile, key));
      fit = hn::Max(fit, hn::IfThenElse(seen, hn::Add(log2, hn::ConvertTo(Floats(), apart)), least));
    }
    return N::weight_unit(largest_unit, hn::GetLane(hn::MaxOfLanes(Floats(), fit)));
  }
}

// The scores of a line become digits of the weights of values, and their sum. False: a score is not finite.
template <typename N>
HWY_INLINE bool soften(const AttentionTile& tile, int largest_unit, Line<N>& line) {
  const Vector infinity = hn::Set(Floats(), std::numeric_limits<float>::infinity());
  const Vector least = hn::Set(Floats(), -FLT_MAX);
  Vector largest = least;
  bool finite = true;
  for (int key = first_vector(tile); key < tile.last; key += kLanes) {
    const auto seen = hn::RebindMask(Floats(), visible(tile, key));
    const Vector score = hn::IfThenElse(seen, hn::Load(Floats(), line.scores + key), least);
    finite = finite && hn::AllTrue(Floats(), hn::Lt(hn::Abs(score), infinity));
    largest = hn::Max(largest, score);
  }
  largest = hn::MaxOfLanes(Floats(), largest);
  const int weight_unit = weight_unit_of<N>(tile, line, largest, largest_unit);
  IntegerVector sum = hn::Zero(Integers());
  for (int key = first_vector(tile); key < tile.last; key += kLanes) {
    const auto seen = visible(tile, key);
    const Vector p = exp2_nonpositive<N>(hn::Sub(hn::Load(Floats(), line.scores + key), largest));
    sum = hn::Add(sum, hn::IfThenElseZero(seen, rounded_product(p, hn::Set(Floats(), 0x1p+23F), 0x1p+23F)));
    store_digits(
        hn::IfThenElseZero(seen, rounded_product(p, weight_factors<N>(tile, key, weight_unit), N::kWeightOffset)),
        line.weights, key);
  }
  line.max = hn::GetLane(largest);
  line.sum = int16::sum_value(hn::GetLane(hn::SumOfLanes(Integers(), sum)));
  line.scale = N::value_scale(weight_unit);
  return finite;
}

template <typename N>
HWY_INLINE void merge_sums(QueryLine& total, float max, float sum, float scale, float& total_scale, float& next_scale) {
  const float larger = std::max(total.max, max);
  total_scale = N::exp2(total.max - larger);
  const float c = N::exp2(max - larger);
  next_scale = scale * c;
  total.sum = fma_rn(total.sum, total_scale, sum * c);
  total.max = larger;
}

// What becomes of a weighted sum, given as binary32.
template <typename N, class D, class V = hn::Vec<D>>
HWY_INLINE void add_to_total(D tag, const AttentionTile& tile, const Line<N>& line, V sum, float* total) {
  const V merged =
      hn::MulAdd(hn::LoadU(tag, total), hn::Set(tag, line.total_scale), hn::Mul(sum, hn::Set(tag, line.next_scale)));
  hn::StoreU(tile.apart ? sum : tile.start ? hn::Mul(sum, hn::Set(tag, line.scale)) : merged, tag, total);
}

// The weighted sums of kLines lines and kVectors vectors of the head, from element `from` on.
template <typename N, int kLines, int kVectors>
HWY_NOINLINE void sum_values(const AttentionTile& tile, std::int64_t from, const Line<N>* lines) {
  const std::int64_t head_dim = tile.block->head_dim;
  Sums<N> sums[kLines][kVectors];
  for (int key = tile.first / 2 * 2; key < tile.last;) {
    const int group = key / kKeyGroup;
    const std::int64_t place = (key % kKeyGroup / 2 * head_dim + from) * 2;
    const auto* values = static_cast<const std::int16_t*>(tile.block->values[group]) + place;
    const std::int8_t* lows = N::kDigits == 3 ? tile.block->value_lows[group] + place : nullptr;
    const int end = std::min(tile.last, (group + 1) * kKeyGroup);
    for (; key < end; key += 2, values += head_dim * 2) {
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) {
        const Elements<N> elements(values + v * kLanes * 2, N::kDigits == 3 ? lows + v * kLanes * 2 : nullptr);
        HWY_UNROLL(4)
        for (int l = 0; l < kLines; ++l) sums[l][v].add(elements, lines[l].weights, key);
      }
      if constexpr (N::kDigits == 3) lows += head_dim * 2;
    }
  }
  HWY_UNROLL(4)
  for (int l = 0; l < kLines; ++l) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v)
      add_to_total<N>(Floats(), tile, lines[l], sums[l][v].template value<false>(),
                      tile.lines[l].weighted + from + v * kLanes);
  }
}

// One element, where a head is no multiple of a vector.
template <typename N>
HWY_INLINE void sum_value(const AttentionTile& tile, std::int64_t d, int l, const Line<N>& line) {
  typename N::Sum sum;
  for (int key = tile.first; key < tile.last; ++key) {
    const int group = key / kKeyGroup;
    const std::int64_t place = (key % kKeyGroup / 2 * tile.block->head_dim + d) * 2 + key % 2;
    const std::int32_t upper = static_cast<const std::int16_t*>(tile.block->values[group])[place];
    if constexpr (N::kDigits == 2)
      sum.add(line.weights.integer(key), upper);
    else
      sum.add(line.weights.integer(key), 256 * upper + tile.block->value_lows[group][place]);
  }
  const hn::FixedTag<float, 1> one;
  add_to_total<N>(one, tile, line, hn::Set(one, sum.value()), tile.lines[l].weighted + d);
}

template <typename N, int kLines>
unsigned attention_lines(const AttentionTile& tile) {
  if constexpr (kLines == 0) {
    return 0;
  } else {
    if (tile.count != kLines) return attention_lines<N, kLines - 1>(tile);
    Line<N> lines[kLines];
    for (int l = 0; l < kLines; ++l) snap_query(tile, l, lines[l]);
    constexpr int kKeys = kStrip<N> * kLanes;
    for (int key = tile.first / kKeys * kKeys; key < tile.last; key += kKeys) score_keys<N, kLines>(tile, key, lines);
    const int largest_unit = largest_value_unit(tile);
    unsigned non_finite = 0;
    for (int l = 0; l < kLines; ++l) {
      Line<N>& line = lines[l];
      if (!soften(tile, largest_unit, line)) non_finite |= 1U << l;
      QueryLine& total = tile.lines[l];
      line.total_scale = line.next_scale = 0.0F;
      if (tile.start) {
        total.max = line.max;
        total.sum = line.sum;
        total.scale = line.scale;
      } else {
        merge_sums<N>(total, line.max, line.sum, line.scale, line.total_scale, line.next_scale);
      }
    }
    const std::int64_t head_dim = tile.block->head_dim;
    std::int64_t d = 0;
    for (; d + kKeys <= head_dim; d += kKeys) sum_values<N, kLines, kStrip<N>>(tile, d, lines);
    for (; d + kLanes <= head_dim; d += kLanes) sum_values<N, kLines, 1>(tile, d, lines);
    for (; d < head_dim; ++d)
      for (int l = 0; l < kLines; ++l) sum_value(tile, d, l, lines[l]);
    return non_finite;
  }
}

inline void start(QueryLine& first, std::int64_t head_dim) {
  for_each_vector(head_dim, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, first.weighted + i), hn::Set(d, first.scale)), d, first.weighted + i);
  });
}

template <typename N>
void merge(QueryLine& total, const QueryLine& next, std::int64_t head_dim) {
  float total_scale = 0.0F, next_scale = 0.0F;
  merge_sums<N>(total, next.max, next.sum, next.scale, total_scale, next_scale);
  for_each_vector(head_dim, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, next.weighted + i), hn::Set(d, next_scale));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, total.weighted + i), hn::Set(d, total_scale), scaled), d, total.weighted + i);
  });
}

// Adding +0 turns a -0 into +0, as in the reference.
inline void divide(const QueryLine& line, std::int64_t head_dim) {
  for_each_vector(head_dim, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto quotient = hn::Div(hn::LoadU(d, line.weighted + i), hn::Set(d, line.sum));
    hn::StoreU(hn::Add(quotient, hn::Zero(d)), d, line.weighted + i);
  });
}

template <typename N>
constexpr AttentionKernels kKernels = {.key_block = kKeyBlock,
                                       .tile_lines = kTileLines,
                                       .tile = attention_lines<N, kTileLines>,
                                       .start = start,
                                       .merge = merge<N>,
                                       .divide = divide,
                                       .find_place = find_digits_place<N::kDigits>};
constexpr AttentionKernels kAttentionInt16 = kKernels<TwoDigits>, kAttentionExact2 = kKernels<ThreeDigits>;

}  // namespace reprofuse::cpu::HWY_NAMESPACE::integer_attention
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const AttentionKernels* attention_int16_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, integer_attention::kAttentionInt16);
}

const AttentionKernels* attention_exact2_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, integer_attention::kAttentionExact2);
}

}  // namespace reprofuse::cpu
#endif
