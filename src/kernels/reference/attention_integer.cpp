#include "numerics/attention_integer.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/reference/reference.hpp"

namespace reprofuse::reference {
namespace {

std::uint8_t* unit_at(void* units, const kernels::KvPages& kv, const KvPlace& place) {
  return static_cast<std::uint8_t*>(units) + place.head / kv.head_dim + place.slot;
}

// Numbers that share a unit, in N's digits.
template <typename N>
Snapped snap_head(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  Snapped snapped{.values = std::vector<std::int32_t>(static_cast<std::size_t>(count)), .unit = N::unit_byte(largest)};
  if (snapped.unit == int16::kNotFinite) return snapped;
  for (std::int64_t i = 0; i < count; ++i)
    snapped.values[static_cast<std::size_t>(i)] = N::snap(x[i], int16::inverse_unit(snapped.unit));
  return snapped;
}

template <typename N>
void store_head(const kernels::RotaryCall& call, const KvPlace& place, const float* key, const float* value) {
  const std::int64_t head_dim = call.kv.head_dim;
  const Snapped k = snap_head<N>(key, head_dim);
  const Snapped v = snap_head<N>(value, head_dim);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    store_integer(call.kv.keys, N::kDigits, place, place.paired_key(d), k.values[static_cast<std::size_t>(d)]);
    store_integer(call.kv.values, N::kDigits, place, place.paired_value(d), v.values[static_cast<std::size_t>(d)]);
  }
  *unit_at(call.kv.key_units, call.kv, place) = static_cast<std::uint8_t>(k.unit);
  *unit_at(call.kv.value_units, call.kv, place) = static_cast<std::uint8_t>(v.unit);
}

// The softmax of some keys of one query and head, up to its division.
struct Partial {
  float max = 0.0F;             // of the scores
  float sum = 0.0F;             // of probabilities
  float scale = 0.0F;           // of the weighted sums
  std::vector<float> weighted;  // [head_dim]
};

struct QueryHead {
  Snapped query;
  float factor;
  std::int64_t sequence;
  std::int64_t kv_head;
};

// The unit that the weights of a block count in.
template <typename N>
int weight_unit_of(const std::vector<float>& scores, float max, const std::vector<int>& units) {
  const int largest = *std::max_element(units.begin(), units.end());
  if constexpr (N::kFitsWeights) {
    float fit = -std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < scores.size(); ++j)
      fit = std::max(fit, N::fit_of(std::max(scores[j] - max, int16::kExp2Min), units[j], largest));
    return N::weight_unit(largest, fit);
  }
  return largest;
}

// Keys [begin, end) of one block. Fails where a score is not finite.
template <typename N>
bool block_partial(const kernels::AttentionCall& call, const QueryHead& head, std::int64_t begin, std::int64_t end,
                   Partial* partial) {
  const kernels::KvPages& kv = call.kv;
  std::vector<KvPlace> places;
  std::vector<float> scores;
  std::vector<int> units;  // of values
  bool finite = true;
  for (std::int64_t j = begin; j < end; ++j) {
    const KvPlace place = find_place(kv, call.batch, head.sequence, j, head.kv_head);
    typename N::Sum dot;
    for (std::int64_t d = 0; d < kv.head_dim; ++d)
      dot.add(head.query.values[static_cast<std::size_t>(d)],
              load_integer(kv.keys, N::kDigits, place, place.paired_key(d)));
    const float unit = int16::unit_value(*unit_at(kv.key_units, kv, place));
    scores.push_back(dot.value() * unit * head.factor);
    finite = finite && is_finite_bits(scores.back());
    units.push_back(*unit_at(kv.value_units, kv, place));
    places.push_back(place);
  }
  partial->max = *std::max_element(scores.begin(), scores.end());
  const int weight_unit = weight_unit_of<N>(scores, partial->max, units);
  partial->scale = N::value_scale(weight_unit);
  std::vector<typename N::Sum> weighted(static_cast<std::size_t>(kv.head_dim));
  std::int32_t sum = 0;
  for (std::size_t j = 0; j < places.size(); ++j) {
    const float probability = N::exp2(scores[j] - partial->max);
    sum += int16::sum_term(probability);
    const std::int32_t weight = N::weight_of(probability, N::weight_factor(units[j], weight_unit));
    for (std::int64_t d = 0; d < kv.head_dim; ++d)
      weighted[static_cast<std::size_t>(d)].add(
          weight, load_integer(kv.values, N::kDigits, places[j], places[j].paired_value(d)));
  }
  partial->sum = int16::sum_value(sum);
  for (const typename N::Sum& of : weighted) partial->weighted.push_back(of.value());
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
  for (const float weighted : first.weighted) total.weighted.push_back(weighted * first.scale);
  return total;
}

template <typename N>
void merge(Total* total, const Partial& next) {
  const float max = std::max(total->max, next.max);
  const float a = N::exp2(total->max - max);
  const float c = N::exp2(next.max - max);
  const float scale = next.scale * c;
  total->max = max;
  total->sum = std::fma(total->sum, a, next.sum * c);
  for (std::size_t d = 0; d < total->weighted.size(); ++d)
    total->weighted[d] = std::fma(total->weighted[d], a, next.weighted[d] * scale);
}

template <typename N>
std::optional<kernels::NonFinite> attend(const kernels::AttentionCall& call) {
  const std::int64_t head_dim = call.kv.head_dim;
  const std::int64_t group = call.heads / call.kv.kv_heads;
  std::optional<kernels::NonFinite> failure;
  for (std::int64_t m = 0; m < call.q.rows; ++m) {
    const std::int64_t end = call.batch.positions[m] + 1;
    const std::int64_t begin = call.window > 0 ? std::max<std::int64_t>(0, end - call.window) : 0;
    for (std::int64_t h = 0; h < call.heads; ++h) {
      QueryHead head{.query = snap_head<N>(call.q.data + m * call.q.stride + h * head_dim, head_dim),
                     .factor = 0.0F,
                     .sequence = call.batch.sequences[m],
                     .kv_head = h / group};
      head.factor = N::score_factor(call.scale, head.query.unit);
      Total total;
      for (std::int64_t block = begin / int16::kKeyBlock * int16::kKeyBlock; block < end; block += int16::kKeyBlock) {
        const std::int64_t first = std::max(begin, block);
        Partial next;
        const bool finite = block_partial<N>(call, head, first, std::min(end, block + int16::kKeyBlock), &next);
        if (!finite && !failure) failure = {.row = m, .column = h};
        if (first == begin)
          total = first_total(next);
        else
          merge<N>(&total, next);
      }
      float* out = call.out.data + m * call.out.stride + h * head_dim;
      for (std::int64_t d = 0; d < head_dim; ++d)
        out[d] = total.weighted[static_cast<std::size_t>(d)] / total.sum + 0.0F;
    }
  }
  return failure;
}

}  // namespace

std::int32_t load_integer(const void* pages, int digits, const KvPlace& place, std::int64_t index) {
  if (digits == 2) return static_cast<const std::int16_t*>(pages)[index];
  const auto* head = static_cast<const std::byte*>(pages) + 3 * place.head;
  const std::int64_t element = index - place.head;
  return 256 * reinterpret_cast<const std::int16_t*>(head)[element] +
         reinterpret_cast<const std::int8_t*>(head + 2 * place.head_dim * place.page_size)[element];
}

void store_integer(void* pages, int digits, const KvPlace& place, std::int64_t index, std::int32_t x) {
  if (digits == 2) {
    static_cast<std::int16_t*>(pages)[index] = static_cast<std::int16_t>(x);
    return;
  }
  auto* head = static_cast<std::byte*>(pages) + 3 * place.head;
  const std::int64_t element = index - place.head;
  reinterpret_cast<std::int16_t*>(head)[element] = static_cast<std::int16_t>(upper_digits(x));
  reinterpret_cast<std::int8_t*>(head + 2 * place.head_dim * place.page_size)[element] =
      static_cast<std::int8_t>(lowest_digit(x));
}

std::int32_t integer_in_page(const void* page, int digits, kernels::Cached which, const kernels::ElementInPage& at) {
  const KvPlace place{.head = at.head * at.head_dim * at.page_size,
                      .slot = at.slot,
                      .page_size = at.page_size,
                      .head_dim = at.head_dim};
  return load_integer(page, digits, place,
                      which == kernels::Cached::kKey ? place.paired_key(at.element) : place.paired_value(at.element));
}

void rotary_int16(const kernels::RotaryCall& call) {
  rotate_rows(call, store_head<TwoDigits>);
}

std::optional<kernels::NonFinite> attention_int16(const kernels::AttentionCall& call) {
  return attend<TwoDigits>(call);
}

void rotary_exact2(const kernels::RotaryCall& call) {
  rotate_rows(call, store_head<ThreeDigits>);
}

std::optional<kernels::NonFinite> attention_exact2(const kernels::AttentionCall& call) {
  return attend<ThreeDigits>(call);
}

}  // namespace reprofuse::reference
