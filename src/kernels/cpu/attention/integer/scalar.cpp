// Attention by contracts int16-1 and exact-2, one line and one element at a time: for any machine, and as the plainest
// of the kernels.
#include <algorithm>

#include "kernels/cpu/attention/attention.hpp"
#include "numerics/attention_integer.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

using int16::kKeyBlock;

// A query in integers, and what its scores are multiplied by.
struct Query {
  std::int32_t integers[int16::kMaxScoreTerms];
  float factor;
};

template <typename N>
void snap_query(const AttentionTile& tile, Query* query) {
  const std::int64_t head_dim = tile.block->head_dim;
  std::uint32_t largest = 0;
  for (std::int64_t d = 0; d < head_dim; ++d) largest = std::max(largest, magnitude_bits(tile.lines->query[d]));
  const int unit = N::unit_byte(largest);
  for (std::int64_t d = 0; d < head_dim; ++d)
    query->integers[d] = unit == int16::kNotFinite ? 0 : N::snap(tile.lines->query[d], int16::inverse_unit(unit));
  query->factor = N::score_factor(tile.scale, unit);
}

// An element of a key or a value: 16 bits, and of three digits the lowest apart.
template <typename N>
std::int32_t element(const void* elements, const std::int8_t* lows, std::int64_t place) {
  const std::int32_t upper = static_cast<const std::int16_t*>(elements)[place];
  if constexpr (N::kDigits == 2) return upper;
  return 256 * upper + lows[place];
}

template <typename N>
float score(const AttentionTile& tile, const Query& query, int key) {
  const KeyBlock& block = *tile.block;
  const int group = key / kKeyGroup, first = key % kKeyGroup * 2;
  typename N::Sum sum;
  for (std::int64_t d = 0; d < block.head_dim; ++d)
    sum.add(query.integers[d],
            element<N>(block.keys[group], block.key_lows[group], d / 2 * block.page_size * 2 + d % 2 + first));
  return sum.value() * int16::unit_value(block.key_units[group][key % kKeyGroup]) * query.factor;
}

// The scores become weights of values, and their sum that of probabilities.
struct Softmax {
  std::int32_t weights[kKeyBlock];
  float max, sum, scale;
};

template <typename N>
void soften(const AttentionTile& tile, const float* scores, Softmax* softmax) {
  const auto unit = [&](int key) { return int{tile.block->value_units[key / kKeyGroup][key % kKeyGroup]}; };
  int weight_unit = int16::kMinUnit;
  for (int key = tile.first; key < tile.last; ++key) weight_unit = std::max(weight_unit, unit(key));
  softmax->max = *std::max_element(scores + tile.first, scores + tile.last);
  if constexpr (N::kFitsWeights) {
    float fit = -N::kMaxFit;
    for (int key = tile.first; key < tile.last; ++key)
      fit = std::max(fit, N::fit_of(std::max(scores[key] - softmax->max, int16::kExp2Min), unit(key), weight_unit));
    weight_unit = N::weight_unit(weight_unit, fit);
  }
  std::int32_t sum = 0;
  for (int key = tile.first; key < tile.last; ++key) {
    const float probability = N::exp2(scores[key] - softmax->max);
    sum += int16::sum_term(probability);
    softmax->weights[key] = N::weight_of(probability, N::weight_factor(unit(key), weight_unit));
  }
  softmax->sum = int16::sum_value(sum);
  softmax->scale = N::value_scale(weight_unit);
}

template <typename N>
float weighted_sum(const AttentionTile& tile, const Softmax& softmax, std::int64_t d) {
  const KeyBlock& block = *tile.block;
  typename N::Sum sum;
  for (int key = tile.first; key < tile.last; ++key) {
    const int group = key / kKeyGroup, slot = key % kKeyGroup;
    sum.add(softmax.weights[key],
            element<N>(block.values[group], block.value_lows[group], (slot / 2 * block.head_dim + d) * 2 + slot % 2));
  }
  return sum.value();
}

// Merges maximum and sum; returns what merging multiplies the totals by, and next's weighted sums.
struct Scales {
  float total, next;
};

template <typename N>
Scales merge_sums(QueryLine& total, float next_max, float next_sum, float next_scale) {
  const float max = std::max(total.max, next_max);
  const float a = N::exp2(total.max - max);
  const float c = N::exp2(next_max - max);
  total.max = max;
  total.sum = fma_rn(total.sum, a, next_sum * c);
  return {a, next_scale * c};
}

// One line, since tile_lines is 1.
template <typename N>
unsigned attention_tile(const AttentionTile& tile) {
  Query query;
  snap_query<N>(tile, &query);
  float scores[kKeyBlock];
  for (int key = tile.first; key < tile.last; ++key) scores[key] = score<N>(tile, query, key);
  const bool finite = std::all_of(scores + tile.first, scores + tile.last, is_finite_bits);
  Softmax softmax;
  soften<N>(tile, scores, &softmax);
  QueryLine& line = *tile.lines;
  Scales scales{};
  if (tile.start) {
    line.max = softmax.max;
    line.sum = softmax.sum;
    line.scale = softmax.scale;
  } else {
    scales = merge_sums<N>(line, softmax.max, softmax.sum, softmax.scale);
  }
  for (std::int64_t d = 0; d < tile.block->head_dim; ++d) {
    const float sum = weighted_sum<N>(tile, softmax, d);
    line.weighted[d] = tile.apart   ? sum
                       : tile.start ? sum * softmax.scale
                                    : fma_rn(line.weighted[d], scales.total, sum * scales.next);
  }
  return finite ? 0 : 1;
}

void start(QueryLine& first, std::int64_t head_dim) {
  for (std::int64_t d = 0; d < head_dim; ++d) first.weighted[d] = first.weighted[d] * first.scale;
}

template <typename N>
void merge(QueryLine& total, const QueryLine& next, std::int64_t head_dim) {
  const Scales scales = merge_sums<N>(total, next.max, next.sum, next.scale);
  for (std::int64_t d = 0; d < head_dim; ++d)
    total.weighted[d] = fma_rn(total.weighted[d], scales.total, next.weighted[d] * scales.next);
}

void divide(const QueryLine& line, std::int64_t head_dim) {
  for (std::int64_t d = 0; d < head_dim; ++d) line.weighted[d] = line.weighted[d] / line.sum + 0.0F;
}

template <typename N>
constexpr AttentionKernels kGeneric = {.key_block = kKeyBlock,
                                       .tile_lines = 1,
                                       .tile = attention_tile<N>,
                                       .start = start,
                                       .merge = merge<N>,
                                       .divide = divide,
                                       .find_place = find_digits_place<N::kDigits>};

#if defined(__x86_64__)
// The same functions, compiled with the instruction: flattened, or they would call what was compiled without.
template <auto kKernel, class... Arguments>
[[gnu::target("fma"), gnu::flatten]] auto with_fma(Arguments... arguments) {
  return kKernel(arguments...);
}

template <typename N>
constexpr AttentionKernels kFma = {.key_block = kKeyBlock,
                                   .tile_lines = 1,
                                   .tile = with_fma<attention_tile<N>, const AttentionTile&>,
                                   .start = start,
                                   .merge = with_fma<merge<N>, QueryLine&, const QueryLine&, std::int64_t>,
                                   .divide = divide,
                                   .find_place = find_digits_place<N::kDigits>};

template <typename N>
const AttentionKernels& scalar_kernels() {
  return __builtin_cpu_supports("fma") ? kFma<N> : kGeneric<N>;
}
#else
template <typename N>
const AttentionKernels& scalar_kernels() {
  return kGeneric<N>;
}
#endif

}  // namespace

const AttentionKernels& attention_int16_scalar() {
  return scalar_kernels<TwoDigits>();
}

const AttentionKernels& attention_exact2_scalar() {
  return scalar_kernels<ThreeDigits>();
}

}  // namespace reprofuse::cpu
