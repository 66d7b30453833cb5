// Attention by fma-1 one element at a time, for machines whose vectors have no fused multiply-add and as the plainest
// of the kernels.
#include <algorithm>

#include "kernels/cpu/attention/attention.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cpu {
namespace {

struct F32Element {
  using Type = float;
  static float widen(float value) { return value; }
};
struct Bf16Element {
  using Type = std::uint16_t;
  static float widen(std::uint16_t bits) { return widen_bf16(bits); }
};

constexpr int kChains = 8;  // side by side, to hide the latency of a fused multiply-add

// The scores of kChains neighbouring keys. Those outside the tile are computed from what is there and not used.
template <class Element>
void score_keys(const AttentionTile& tile, int key, float* scores) {
  const KeyBlock& block = *tile.block;
  const auto* keys = static_cast<const typename Element::Type*>(block.keys[key / kKeyGroup]) + key % kKeyGroup;
  float chains[kChains] = {};
  for (std::int64_t d = 0; d < block.head_dim; ++d, keys += block.page_size)
    for (int i = 0; i < kChains; ++i) chains[i] = fma_rn(tile.lines->query[d], Element::widen(keys[i]), chains[i]);
  for (int i = 0; i < kChains; ++i) scores[key + i] = chains[i] * tile.scale;
}

// The weighted sums of `count` <= kChains elements of the head from `from` on.
template <class Element>
void sum_values(const AttentionTile& tile, const float* probabilities, std::int64_t from, int count, float* chains) {
  std::fill_n(chains, kChains, 0.0F);
  for (int key = tile.first; key < tile.last; ++key) {
    const auto* values = static_cast<const typename Element::Type*>(tile.block->values[key / kKeyGroup]);
    values += key % kKeyGroup * tile.block->head_dim + from;
    for (int i = 0; i < count; ++i) chains[i] = fma_rn(probabilities[key], Element::widen(values[i]), chains[i]);
  }
}

// What merging multiplies totals and the next keys by.
struct Scales {
  float total;
  float next;
};

// Merges the maximum and the sum of the next keys into a line's.
Scales merge_sums(QueryLine& total, float next_max, float next_sum) {
  const float max = std::max(total.max, next_max);
  const Scales scales{exp_nonpositive_f32(total.max - max), exp_nonpositive_f32(next_max - max)};
  total.max = max;
  total.sum = fma_rn(total.sum, scales.total, next_sum * scales.next);
  return scales;
}

void merge_weighted(float* total, const float* next, std::int64_t count, Scales scales) {
  for (std::int64_t d = 0; d < count; ++d) total[d] = fma_rn(total[d], scales.total, next[d] * scales.next);
}

void merge(QueryLine& total, const QueryLine& next, std::int64_t head_dim) {
  merge_weighted(total.weighted, next.weighted, head_dim, merge_sums(total, next.max, next.sum));
}

// One line, since tile_lines is 1.
template <class Element>
unsigned attention_tile(const AttentionTile& tile) {
  static_assert(kKeyGroup % kChains == 0);
  float probabilities[fma1::kKeyBlock];  // scores at first
  for (int key = tile.first / kChains * kChains; key < tile.last; key += kChains)
    score_keys<Element>(tile, key, probabilities);
  const bool finite = std::all_of(probabilities + tile.first, probabilities + tile.last, is_finite_bits);
  const float max = *std::max_element(probabilities + tile.first, probabilities + tile.last);
  float sum = 0.0F;
  for (int key = tile.first; key < tile.last; ++key) {
    probabilities[key] = exp_nonpositive_f32(probabilities[key] - max);
    sum = sum + probabilities[key];
  }
  QueryLine& total = *tile.lines;
  Scales scales{};
  if (tile.start) {
    total.max = max;
    total.sum = sum;
  } else {
    scales = merge_sums(total, max, sum);
  }
  const std::int64_t head_dim = tile.block->head_dim;
  for (std::int64_t d = 0; d < head_dim; d += kChains) {
    const int count = static_cast<int>(std::min<std::int64_t>(kChains, head_dim - d));
    float chains[kChains];
    sum_values<Element>(tile, probabilities, d, count, chains);
    if (tile.start)
      std::copy_n(chains, count, total.weighted + d);
    else
      merge_weighted(total.weighted + d, chains, count, scales);
  }
  return finite ? 0 : 1;
}

void divide(const QueryLine& line, std::int64_t head_dim) {
  for (std::int64_t d = 0; d < head_dim; ++d) line.weighted[d] = line.weighted[d] / line.sum + 0.0F;
}

template <class Element>
constexpr AttentionKernels kGeneric = {.key_block = fma1::kKeyBlock,
                                       .tile_lines = 1,
                                       .tile = attention_tile<Element>,
                                       .start = [](QueryLine&, std::int64_t) {},
                                       .merge = merge,
                                       .divide = divide,
                                       .find_place = find_place};

#if defined(__x86_64__)
// The same functions, compiled with the instruction: flattened, or they would call what was compiled without.
template <auto kKernel, class... Arguments>
[[gnu::target("fma"), gnu::flatten]] auto with_fma(Arguments... arguments) {
  return kKernel(arguments...);
}

template <class Element>
constexpr AttentionKernels kFma = {.key_block = fma1::kKeyBlock,
                                   .tile_lines = 1,
                                   .tile = with_fma<attention_tile<Element>, const AttentionTile&>,
                                   .start = [](QueryLine&, std::int64_t) {},
                                   .merge = with_fma<merge, QueryLine&, const QueryLine&, std::int64_t>,
                                   .divide = divide,
                                   .find_place = find_place};

template <class Element>
const AttentionKernels& best() {
  return __builtin_cpu_supports("fma") ? kFma<Element> : kGeneric<Element>;
}
#else
template <class Element>
const AttentionKernels& best() {
  return kGeneric<Element>;
}
#endif

}  // namespace

const AttentionKernels& attention_bf16_scalar() {
  return best<Bf16Element>();
}

const AttentionKernels& attention_f32_scalar() {
  return best<F32Element>();
}

}  // namespace reprofuse::cpu
