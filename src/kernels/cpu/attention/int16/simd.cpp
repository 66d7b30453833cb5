// Attention by contract int16-1 for every instruction set with a fused multiply-add, from one source: Highway compiles
// this file once per target. With digits X = 256 x0 + x1 and W = 256 w0 + w1 a term is x0 W + x1 w0; products of pairs
// of 16-bit integers take two terms each. Lanes are keys for the scores, and elements of the head for the sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/int16/simd.cpp"
#include <algorithm>
#include <cfloat>
#include <cstring>
#include <limits>

#include "kernels/cpu/highway_targets.hpp"  // before any Highway header
#include "kernels/cpu/ops/ops.hpp"
#include "numerics/int16.hpp"

#if REPROFUSE_SIMD_TARGET
static_assert(HWY_NATIVE_FMA, "a multiply and an add would round twice");

HWY_BEFORE_NAMESPACE();
namespace reprofuse::cpu::HWY_NAMESPACE::int16_attention {
namespace hn = hwy::HWY_NAMESPACE;

using int16::kKeyBlock;
using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<std::uint32_t>;
using Integers = hn::ScalableTag<std::int32_t>;
using Halves = hn::ScalableTag<std::int16_t>;
using Vector = hn::Vec<Floats>;
using IntegerVector = hn::Vec<Integers>;
using HalfVector = hn::Vec<Halves>;
constexpr int kLanes = HWY_LANES(float);
static_assert(kKeyGroup % kLanes == 0);

constexpr int kTileLines = 4;
constexpr int kStrip = 2;  // vectors of a pass over keys or elements
static_assert(kTileLines <= kMaxTileLines);

// Sums of products of 16-bit integers, two to a lane.
HWY_INLINE void add_pairs(HalfVector pairs, std::int32_t pair, IntegerVector (&sums)[2]) {
  const auto both = hn::BitCast(Halves(), hn::Set(Integers(), pair));
  sums[0] = hn::ReorderWidenMulAccumulate(Integers(), pairs, both, sums[0], sums[1]);
}

HWY_INLINE Vector to_floats(const IntegerVector (&sums)[2]) {
  return hn::ConvertTo(Floats(), hn::RearrangeToOddPlusEven(sums[0], sums[1]));
}

HWY_INLINE HalfVector high_digits(HalfVector x) {
  return hn::ShiftRight<8>(hn::Add(x, hn::Set(Halves(), 128)));
}

// Digits of 16-bit integers, in pairs that a register repeats.
template <int kCount>
struct DigitPairs {
  HWY_ALIGN std::int16_t high[kCount];
  HWY_ALIGN std::int16_t low[kCount];

  static std::int32_t pair(const std::int16_t* digits, std::int64_t i) {
    std::int32_t both;
    std::memcpy(&both, digits + i, sizeof(both));
    return both;
  }
  void set(std::int64_t i, std::int32_t x) {
    high[i] = static_cast<std::int16_t>(int16::high_digit(x));
    low[i] = static_cast<std::int16_t>(int16::low_digit(x));
  }
};

struct Line {
  DigitPairs<int16::kMaxHeadDim> query;
  DigitPairs<kKeyBlock> weights;
  HWY_ALIGN float scores[kKeyBlock];
  float factor;
  float max, sum;
  float total_scale, next_scale;  // what merging multiplies by
};

// What is known of the values of a tile.
struct Values {
  HWY_ALIGN float factors[kKeyBlock];  // int16::weight_factor
  float scale;                         // int16::value_scale
};

HWY_INLINE IntegerVector high_digits(IntegerVector x) {
  return hn::ShiftRight<8>(hn::Add(x, hn::Set(Integers(), 128)));
}

// The digits of kLanes integers.
template <int kCount>
HWY_INLINE void store_digits(IntegerVector x, DigitPairs<kCount>& to, std::int64_t i) {
  const hn::Rebind<std::int16_t, Integers> narrow;
  const IntegerVector high = high_digits(x);
  hn::StoreU(hn::DemoteTo(narrow, high), narrow, to.high + i);
  hn::StoreU(hn::DemoteTo(narrow, hn::Sub(x, hn::ShiftLeft<8>(high))), narrow, to.low + i);
}

HWY_INLINE void snap_query(const AttentionTile& tile, int l, Line& line) {
  const float* query = tile.lines[l].query;
  const std::int64_t head_dim = tile.block->head_dim;
  const std::int64_t whole = head_dim / kLanes * kLanes;
  auto largest_lanes = hn::Zero(Words());
  for (std::int64_t d = 0; d < whole; d += kLanes)
    largest_lanes = hn::Max(largest_lanes, hn::BitCast(Words(), hn::Abs(hn::LoadU(Floats(), query + d))));
  std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(Words(), largest_lanes));
  for (std::int64_t d = whole; d < head_dim; ++d) largest = std::max(largest, float_bits(query[d]) & 0x7fffffffU);
  const int unit = int16::unit_byte(largest);
  line.factor = int16::score_factor(tile.scale, unit);
  if (unit == int16::kNotFinite) {
    std::fill_n(line.query.high, head_dim, std::int16_t{0});
    std::fill_n(line.query.low, head_dim, std::int16_t{0});
    return;
  }
  const float inverse = int16::inverse_unit(unit);
  for (std::int64_t d = 0; d < whole; d += kLanes)
    store_digits(hn::NearestInt(hn::Mul(hn::LoadU(Floats(), query + d), hn::Set(Floats(), inverse))), line.query, d);
  for (std::int64_t d = whole; d < head_dim; ++d) line.query.set(d, int16::snap(query[d], inverse));
}

HWY_INLINE IntegerVector units_at(const std::uint8_t* const* units, int key) {
  const hn::Rebind<std::uint8_t, Integers> bytes;
  return hn::PromoteTo(Integers(), hn::LoadU(bytes, units[key / kKeyGroup] + key % kKeyGroup));
}

// The scores of kLines lines and kStrip vectors of keys, from `key` on.
template <int kLines>
HWY_NOINLINE void score_keys(const AttentionTile& tile, int key, Line* lines) {
  const KeyBlock& block = *tile.block;
  const std::int16_t* keys[kStrip];
  IntegerVector sums[kLines][kStrip][2];
  HWY_UNROLL(2)
  for (int v = 0; v < kStrip; ++v) {
    const int at = key + v * kLanes;
    keys[v] = static_cast<const std::int16_t*>(block.keys[at / kKeyGroup]) + at % kKeyGroup * 2;
    HWY_UNROLL(4)
    for (int l = 0; l < kLines; ++l) sums[l][v][0] = sums[l][v][1] = hn::Zero(Integers());
  }
  for (std::int64_t d = 0, row = 0; d < block.head_dim; d += 2, row += block.page_size * 2) {
    HWY_UNROLL(2)
    for (int v = 0; v < kStrip; ++v) {
      const HalfVector elements = hn::LoadU(Halves(), keys[v] + row);
      const HalfVector high = high_digits(elements);
      HWY_UNROLL(4)
      for (int l = 0; l < kLines; ++l) {
        add_pairs(elements, lines[l].query.pair(lines[l].query.high, d), sums[l][v]);
        add_pairs(high, lines[l].query.pair(lines[l].query.low, d), sums[l][v]);
      }
    }
  }
  HWY_UNROLL(2)
  for (int v = 0; v < kStrip; ++v) {
    const int at = key + v * kLanes;
    const Vector units = hn::BitCast(Floats(), hn::ShiftLeft<23>(units_at(block.key_units, at)));
    HWY_UNROLL(4)
    for (int l = 0; l < kLines; ++l) {
      const Vector sum = to_floats(sums[l][v]);
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

HWY_INLINE void find_values(const AttentionTile& tile, Values& values) {
  IntegerVector largest = hn::Set(Integers(), int16::kMinUnit);
  for (int key = first_vector(tile); key < tile.last; key += kLanes)
    largest = hn::Max(largest, hn::IfThenElseZero(visible(tile, key), units_at(tile.block->value_units, key)));
  const int largest_unit = hn::GetLane(hn::MaxOfLanes(Integers(), largest));
  for (int key = first_vector(tile); key < tile.last; key += kLanes) {
    const IntegerVector apart =
        hn::Max(hn::Sub(units_at(tile.block->value_units, key), hn::Set(Integers(), largest_unit)),
                hn::Set(Integers(), int16::kLeastWeight));
    const Vector power = hn::BitCast(Floats(), hn::ShiftLeft<23>(hn::Add(apart, hn::Set(Integers(), 127))));
    hn::Store(hn::Mul(hn::Set(Floats(), int16::kLargestWeight), power), Floats(), values.factors + key);
  }
  values.scale = int16::value_scale(largest_unit);
}

// int16::exp2_nonpositive in every lane.
HWY_INLINE Vector exp2_nonpositive(Vector x) {
  const Floats d;
  x = hn::Max(x, hn::Set(d, int16::kExp2Min));
  const Vector shift = hn::Set(d, int16::kExp2Shift);
  const Vector shifted = hn::Add(x, shift);
  const Vector r = hn::Sub(x, hn::Sub(shifted, shift));
  Vector p = hn::MulAdd(hn::Set(d, int16::kExp2C4), r, hn::Set(d, int16::kExp2C3));
  p = hn::MulAdd(p, r, hn::Set(d, int16::kExp2C2));
  p = hn::MulAdd(p, r, hn::Set(d, int16::kExp2C1));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(Words(), shifted))));
}

// The integer that is nearest to a * b, as the low bits of a sum with `offset`.
HWY_INLINE IntegerVector rounded_product(Vector a, Vector b, float offset) {
  const Vector sum = hn::MulAdd(a, b, hn::Set(Floats(), offset));
  return hn::Sub(hn::BitCast(Integers(), sum), hn::Set(Integers(), static_cast<std::int32_t>(float_bits(offset))));
}

// The scores of a line become digits of the weights of values, and their sum. False: a score is not finite.
HWY_INLINE bool soften(const AttentionTile& tile, const Values& values, Line& line) {
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
  IntegerVector sum = hn::Zero(Integers());
  for (int key = first_vector(tile); key < tile.last; key += kLanes) {
    const auto seen = visible(tile, key);
    const Vector p = exp2_nonpositive(hn::Sub(hn::Load(Floats(), line.scores + key), largest));
    sum = hn::Add(sum, hn::IfThenElseZero(seen, rounded_product(p, hn::Set(Floats(), 0x1p+23F), 0x1p+23F)));
    const IntegerVector weight =
        hn::IfThenElseZero(seen, rounded_product(p, hn::Load(Floats(), values.factors + key), int16::kRoundToInteger));
    store_digits(weight, line.weights, key);
  }
  line.max = hn::GetLane(largest);
  line.sum = int16::sum_value(hn::GetLane(hn::SumOfLanes(Integers(), sum)));
  return finite;
}

HWY_INLINE void merge_sums(QueryLine& total, float max, float sum, float scale, float& total_scale, float& next_scale) {
  const float larger = std::max(total.max, max);
  total_scale = int16::exp2_nonpositive(total.max - larger);
  const float c = int16::exp2_nonpositive(max - larger);
  next_scale = scale * c;
  total.sum = fma_rn(total.sum, total_scale, sum * c);
  total.max = larger;
}

// What becomes of a weighted sum, given as binary32.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void add_to_total(D tag, const AttentionTile& tile, const Line& line, float scale, V sum, float* total) {
  const V merged =
      hn::MulAdd(hn::LoadU(tag, total), hn::Set(tag, line.total_scale), hn::Mul(sum, hn::Set(tag, line.next_scale)));
  hn::StoreU(tile.apart ? sum : tile.start ? hn::Mul(sum, hn::Set(tag, scale)) : merged, tag, total);
}

// The weighted sums of kLines lines and kVectors vectors of the head, from element `from` on.
template <int kLines, int kVectors>
HWY_NOINLINE void sum_values(const AttentionTile& tile, std::int64_t from, const Values& known, const Line* lines) {
  const std::int64_t head_dim = tile.block->head_dim;
  IntegerVector sums[kLines][kVectors][2];
  HWY_UNROLL(4)
  for (int l = 0; l < kLines; ++l) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) sums[l][v][0] = sums[l][v][1] = hn::Zero(Integers());
  }
  for (int key = tile.first / 2 * 2; key < tile.last;) {
    const auto* values = static_cast<const std::int16_t*>(tile.block->values[key / kKeyGroup]);
    values += (key % kKeyGroup / 2 * head_dim + from) * 2;
    const int end = std::min(tile.last, (key / kKeyGroup + 1) * kKeyGroup);
    for (; key < end; key += 2, values += head_dim * 2) {
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) {
        const HalfVector elements = hn::LoadU(Halves(), values + v * kLanes * 2);
        const HalfVector high = high_digits(elements);
        HWY_UNROLL(4)
        for (int l = 0; l < kLines; ++l) {
          add_pairs(elements, lines[l].weights.pair(lines[l].weights.high, key), sums[l][v]);
          add_pairs(high, lines[l].weights.pair(lines[l].weights.low, key), sums[l][v]);
        }
      }
    }
  }
  HWY_UNROLL(4)
  for (int l = 0; l < kLines; ++l) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v)
      add_to_total(Floats(), tile, lines[l], known.scale, to_floats(sums[l][v]),
                   tile.lines[l].weighted + from + v * kLanes);
  }
}

// One element, where a head is no multiple of a vector.
HWY_INLINE void sum_value(const AttentionTile& tile, std::int64_t d, const Values& known, int l, const Line& line) {
  std::int32_t sum = 0;
  for (int key = tile.first; key < tile.last; ++key) {
    const auto* values = static_cast<const std::int16_t*>(tile.block->values[key / kKeyGroup]);
    const std::int32_t element = values[(key % kKeyGroup / 2 * tile.block->head_dim + d) * 2 + key % 2];
    sum += line.weights.high[key] * element + line.weights.low[key] * int16::high_digit(element);
  }
  const hn::FixedTag<float, 1> one;
  add_to_total(one, tile, line, known.scale, hn::Set(one, int16::to_float(sum)), tile.lines[l].weighted + d);
}

template <int kLines>
unsigned attention_lines(const AttentionTile& tile) {
  if constexpr (kLines == 0) {
    return 0;
  } else {
    if (tile.count != kLines) return attention_lines<kLines - 1>(tile);
    Line lines[kLines];
    Values values;
    for (int l = 0; l < kLines; ++l) snap_query(tile, l, lines[l]);
    constexpr int kKeys = kStrip * kLanes;
    for (int key = tile.first / kKeys * kKeys; key < tile.last; key += kKeys) score_keys<kLines>(tile, key, lines);
    find_values(tile, values);
    unsigned non_finite = 0;
    for (int l = 0; l < kLines; ++l) {
      Line& line = lines[l];
      if (!soften(tile, values, line)) non_finite |= 1U << l;
      QueryLine& total = tile.lines[l];
      line.total_scale = line.next_scale = 0.0F;
      if (tile.start) {
        total.max = line.max;
        total.sum = line.sum;
        total.scale = values.scale;
      } else {
        merge_sums(total, line.max, line.sum, values.scale, line.total_scale, line.next_scale);
      }
    }
    const std::int64_t head_dim = tile.block->head_dim;
    std::int64_t d = 0;
    for (; d + kStrip * kLanes <= head_dim; d += kStrip * kLanes) sum_values<kLines, kStrip>(tile, d, values, lines);
    for (; d + kLanes <= head_dim; d += kLanes) sum_values<kLines, 1>(tile, d, values, lines);
    for (; d < head_dim; ++d)
      for (int l = 0; l < kLines; ++l) sum_value(tile, d, values, l, lines[l]);
    return non_finite;
  }
}

// Whole vectors, then single elements.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(Floats(), i);
  for (; i < count; ++i) body(hn::FixedTag<float, 1>(), i);
}

inline void start(QueryLine& first, std::int64_t head_dim) {
  for_each_vector(head_dim, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, first.weighted + i), hn::Set(d, first.scale)), d, first.weighted + i);
  });
}

inline void merge(QueryLine& total, const QueryLine& next, std::int64_t head_dim) {
  float total_scale = 0.0F, next_scale = 0.0F;
  merge_sums(total, next.max, next.sum, next.scale, total_scale, next_scale);
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

constexpr AttentionKernels kAttentionInt16 = {.key_block = kKeyBlock,
                                              .tile_lines = kTileLines,
                                              .tile = attention_lines<kTileLines>,
                                              .start = start,
                                              .merge = merge,
                                              .divide = divide,
                                              .find_slot = find_int16_slot};

}  // namespace reprofuse::cpu::HWY_NAMESPACE::int16_attention
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace reprofuse::cpu {

const AttentionKernels* attention_int16_simd(Isa isa) {
  REPROFUSE_RETURN_TABLE(isa, int16_attention::kAttentionInt16);
}

}  // namespace reprofuse::cpu
#endif
