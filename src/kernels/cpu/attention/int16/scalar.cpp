// Attention by contract int16-1, one line and one element at a time: for any machine, and as the plainest of the
// kernels.
#include <algorithm>

#include "kernels/cpu/ops/ops.hpp"
#include "numerics/int16.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
namespace {

using int16::kKeyBlock;

struct Digits {
  std::int32_t high, low;
};

// A query in digits, and what its scores are multiplied by.
struct Query {
  Digits digits[int16::kMaxHeadDim];
  float factor;
};

Digits digits_of(std::int32_t x) {
  return {int16::high_digit(x), int16::low_digit(x)};
}

void snap_query(const AttentionTile& tile, Query* query) {
  const std::int64_t head_dim = tile.block->head_dim;
  std::uint32_t largest = 0;
  for (std::int64_t d = 0; d < head_dim; ++d)
    largest = std::max(largest, float_bits(tile.lines->query[d]) & 0x7fffffffU);
  const int unit = int16::unit_byte(largest);
  for (std::int64_t d = 0; d < head_dim; ++d)
    query->digits[d] =
        digits_of(unit == int16::kNotFinite ? 0 : int16::snap(tile.lines->query[d], int16::inverse_unit(unit)));
  query->factor = int16::score_factor(tile.scale, unit);
}

float score(const AttentionTile& tile, const Query& query, int key) {
  const KeyBlock& block = *tile.block;
  const auto* keys =
      static_cast<const std::int16_t*>(block.keys[key / kKeyGroup]) + std::ptrdiff_t{key % kKeyGroup} * 2;
  std::int32_t sum = 0;
  for (std::int64_t d = 0; d < block.head_dim; ++d) {
    const std::int32_t element = keys[d / 2 * block.page_size * 2 + d % 2];
    sum += query.digits[d].high * element + query.digits[d].low * int16::high_digit(element);
  }
  return int16::to_float(sum) * int16::unit_value(block.key_units[key / kKeyGroup][key % kKeyGroup]) * query.factor;
}

// The scores become the digits of the weights of values, and their sum that of probabilities.
struct Softmax {
  Digits weights[kKeyBlock];
  float max, sum, scale;
};

void soften(const AttentionTile& tile, const float* scores, Softmax* softmax) {
  const auto unit = [&](int key) { return int{tile.block->value_units[key / kKeyGroup][key % kKeyGroup]}; };
  int largest_unit = int16::kMinUnit;
  for (int key = tile.first; key < tile.last; ++key) largest_unit = std::max(largest_unit, unit(key));
  softmax->max = *std::max_element(scores + tile.first, scores + tile.last);
  std::int32_t sum = 0;
  for (int key = tile.first; key < tile.last; ++key) {
    const float probability = int16::exp2_nonpositive(scores[key] - softmax->max);
    sum += int16::sum_term(probability);
    softmax->weights[key] = digits_of(int16::weight_of(probability, int16::weight_factor(unit(key), largest_unit)));
  }
  softmax->sum = int16::sum_value(sum);
  softmax->scale = int16::value_scale(largest_unit);
}

std::int32_t weighted_sum(const AttentionTile& tile, const Softmax& softmax, std::int64_t d) {
  std::int32_t sum = 0;
  for (int key = tile.first; key < tile.last; ++key) {
    const auto* values = static_cast<const std::int16_t*>(tile.block->values[key / kKeyGroup]);
    const int slot = key % kKeyGroup;
    const std::int32_t element = values[(slot / 2 * tile.block->head_dim + d) * 2 + slot % 2];
    sum += softmax.weights[key].high * element + softmax.weights[key].low * int16::high_digit(element);
  }
  return sum;
}

// Merges maximum and sum; returns what merging multiplies the totals by, and next's weighted sums.
struct Scales {
  float total, next;
};

Scales merge_sums(QueryLine& total, float next_max, float next_sum, float next_scale) {
  const float max = std::max(total.max, next_max);
  const float a = int16::exp2_nonpositive(total.max - max);
  const float c = int16::exp2_nonpositive(next_max - max);
  total.max = max;
  total.sum = fma_rn(total.sum, a, next_sum * c);
  return {a, next_scale * c};
}

// One line, since tile_lines is 1.
unsigned attention_tile(const AttentionTile& tile) {
  Query query;
  snap_query(tile, &query);
  float scores[kKeyBlock];
  for (int key = tile.first; key < tile.last; ++key) scores[key] = score(tile, query, key);
  const bool finite = std::all_of(scores + tile.first, scores + tile.last, is_finite_bits);
  Softmax softmax;
  soften(tile, scores, &softmax);
  QueryLine& line = *tile.lines;
  Scales scales{};
  if (tile.start) {
    line.max = softmax.max;
    line.sum = softmax.sum;
    line.scale = softmax.scale;
  } else {
    scales = merge_sums(line, softmax.max, softmax.sum, softmax.scale);
  }
  for (std::int64_t d = 0; d < tile.block->head_dim; ++d) {
    const float sum = int16::to_float(weighted_sum(tile, softmax, d));
    line.weighted[d] = tile.apart   ? sum
                       : tile.start ? sum * softmax.scale
                                    : fma_rn(line.weighted[d], scales.total, sum * scales.next);
  }
  return finite ? 0 : 1;
}

void start(QueryLine& first, std::int64_t head_dim) {
  for (std::int64_t d = 0; d < head_dim; ++d) first.weighted[d] = first.weighted[d] * first.scale;
}

void merge(QueryLine& total, const QueryLine& next, std::int64_t head_dim) {
  const Scales scales = merge_sums(total, next.max, next.sum, next.scale);
  for (std::int64_t d = 0; d < head_dim; ++d)
    total.weighted[d] = fma_rn(total.weighted[d], scales.total, next.weighted[d] * scales.next);
}

void divide(const QueryLine& line, std::int64_t head_dim) {
  for (std::int64_t d = 0; d < head_dim; ++d) line.weighted[d] = line.weighted[d] / line.sum + 0.0F;
}

constexpr AttentionKernels kGeneric = {.key_block = kKeyBlock,
                                       .tile_lines = 1,
                                       .tile = attention_tile,
                                       .start = start,
                                       .merge = merge,
                                       .divide = divide,
                                       .find_slot = find_int16_slot};

}  // namespace

#if defined(__x86_64__)
namespace {

// The same functions, compiled with the instruction: flattened, or they would call what was compiled without.
template <auto kKernel, class... Arguments>
[[gnu::target("fma"), gnu::flatten]] auto with_fma(Arguments... arguments) {
  return kKernel(arguments...);
}

constexpr AttentionKernels kFma = {.key_block = kKeyBlock,
                                   .tile_lines = 1,
                                   .tile = with_fma<attention_tile, const AttentionTile&>,
                                   .start = start,
                                   .merge = with_fma<merge, QueryLine&, const QueryLine&, std::int64_t>,
                                   .divide = divide,
                                   .find_slot = find_int16_slot};

}  // namespace

const AttentionKernels& attention_int16_scalar() {
  return __builtin_cpu_supports("fma") ? kFma : kGeneric;
}
#else
const AttentionKernels& attention_int16_scalar() {
  return kGeneric;
}
#endif

}  // namespace reprofuse::cpu
