#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::reference {
namespace {

std::uint8_t* unit_at(void* units, const kernels::KvPages& kv, const KvPlace& place) {
  return static_cast<std::uint8_t*>(units) + place.head / kv.head_dim + place.slot;
}

void store_head(const kernels::RotaryCall& call, const KvPlace& place, const float* key, const float* value) {
  const std::int64_t head_dim = call.kv.head_dim;
  const Snapped16 k = snap16(key, head_dim);
  const Snapped16 v = snap16(value, head_dim);
  auto* keys = static_cast<std::int16_t*>(call.kv.keys);
  auto* values = static_cast<std::int16_t*>(call.kv.values);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    keys[place.paired_key(d)] = static_cast<std::int16_t>(k.values[static_cast<std::size_t>(d)]);
    values[place.paired_value(d)] = static_cast<std::int16_t>(v.values[static_cast<std::size_t>(d)]);
  }
  *unit_at(call.kv.key_exponents, call.kv, place) = static_cast<std::uint8_t>(k.unit);
  *unit_at(call.kv.value_exponents, call.kv, place) = static_cast<std::uint8_t>(v.unit);
}

// The softmax of some keys of one query and head, up to its division.
struct Partial {
  float max = 0.0F;                    // of the scores
  float sum = 0.0F;                    // of probabilities
  float scale = 0.0F;                  // of the weighted sums
  std::vector<std::int32_t> weighted;  // [head_dim]
};

struct QueryHead {
  Snapped16 query;
  float factor;
  std::int64_t sequence;
  std::int64_t kv_head;
};

// Keys [begin, end) of one block. Fails where a score is not finite.
bool block_partial(const kernels::AttentionCall& call, const QueryHead& head, std::int64_t begin, std::int64_t end,
                   Partial* partial) {
  const kernels::KvPages& kv = call.kv;
  const auto* keys = static_cast<const std::int16_t*>(kv.keys);
  const auto* values = static_cast<const std::int16_t*>(kv.values);
  std::vector<KvPlace> places;
  std::vector<float> scores;
  bool finite = true;
  int largest_unit = int16::kMinUnit;
  for (std::int64_t j = begin; j < end; ++j) {
    const KvPlace place = find_place(kv, call.batch, head.sequence, j, head.kv_head);
    std::int32_t dot = 0;
    for (std::int64_t d = 0; d < kv.head_dim; ++d)
      dot += int16::term(head.query.values[static_cast<std::size_t>(d)], keys[place.paired_key(d)]);
    const float unit = int16::unit_value(*unit_at(kv.key_exponents, kv, place));
    scores.push_back(int16::to_float(dot) * unit * head.factor);
    finite = finite && is_finite_bits(scores.back());
    largest_unit = std::max<int>(largest_unit, *unit_at(kv.value_exponents, kv, place));
    places.push_back(place);
  }
  partial->max = *std::max_element(scores.begin(), scores.end());
  partial->scale = int16::value_scale(largest_unit);
  partial->weighted.assign(static_cast<std::size_t>(kv.head_dim), 0);
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < places.size(); ++j) {
    const float probability = int16::exp2_nonpositive(scores[j] - partial->max);
    sum += int16::sum_term(probability);
    const int unit = *unit_at(kv.value_exponents, kv, places[j]);
    const std::int32_t weight = int16::weight_of(probability, int16::weight_factor(unit, largest_unit));
    for (std::int64_t d = 0; d < kv.head_dim; ++d)
      partial->weighted[static_cast<std::size_t>(d)] += int16::term(weight, values[places[j].paired_value(d)]);
  }
  partial->sum = int16::sum_value(sum);
  return finite;
}

// The softmax over all blocks so far.
struct Total {
  float max = 0.0F;
  float sum = 0.0F;
  std::vector<float> weighted;
};

Total first_total(const Partial& first) {
  Total total{.max = first.max, .sum = first.sum, .weighted = {}};
  for (const std::int32_t weighted : first.weighted) total.weighted.push_back(int16::to_float(weighted) * first.scale);
  return total;
}

void merge(Total* total, const Partial& next) {
  const float max = std::max(total->max, next.max);
  const float a = int16::exp2_nonpositive(total->max - max);
  const float c = int16::exp2_nonpositive(next.max - max);
  const float scale = next.scale * c;
  total->max = max;
  total->sum = std::fma(total->sum, a, next.sum * c);
  for (std::size_t d = 0; d < total->weighted.size(); ++d)
    total->weighted[d] = std::fma(total->weighted[d], a, int16::to_float(next.weighted[d]) * scale);
}

}  // namespace

void rotary_int16(const kernels::RotaryCall& call) {
  rotate_rows(call, store_head);
}

std::optional<kernels::Place> attention_int16(const kernels::AttentionCall& call) {
  const std::int64_t head_dim = call.kv.head_dim;
  const std::int64_t group = call.heads / call.kv.kv_heads;
  std::optional<kernels::Place> failure;
  for (std::int64_t m = 0; m < call.q.rows; ++m) {
    const std::int64_t end = call.batch.positions[m] + 1;
    const std::int64_t begin = call.window > 0 ? std::max<std::int64_t>(0, end - call.window) : 0;
    for (std::int64_t h = 0; h < call.heads; ++h) {
      QueryHead head{.query = snap16(call.q.data + m * call.q.stride + h * head_dim, head_dim),
                     .factor = 0.0F,
                     .sequence = call.batch.sequences[m],
                     .kv_head = h / group};
      head.factor = int16::score_factor(call.scale, head.query.unit);
      Total total;
      for (std::int64_t block = begin / int16::kKeyBlock * int16::kKeyBlock; block < end; block += int16::kKeyBlock) {
        const std::int64_t first = std::max(begin, block);
        Partial next;
        const bool finite = block_partial(call, head, first, std::min(end, block + int16::kKeyBlock), &next);
        if (!finite && !failure) failure = {.row = m, .column = h};
        if (first == begin)
          total = first_total(next);
        else
          merge(&total, next);
      }
      float* out = call.out.data + m * call.out.stride + h * head_dim;
      for (std::int64_t d = 0; d < head_dim; ++d)
        out[d] = total.weighted[static_cast<std::size_t>(d)] / total.sum + 0.0F;
    }
  }
  return failure;
}

}  // namespace reprofuse::reference
