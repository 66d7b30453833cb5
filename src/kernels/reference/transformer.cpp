// The operations of a transformer other than its linear layers: those on elements, norms, rotation and attention.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::reference {

void embedding(const kernels::EmbeddingCall& call) {
  for (std::int64_t m = 0; m < call.x.rows; ++m)
    for (std::int64_t i = 0; i < call.x.cols; ++i)
      call.x.data[m * call.x.stride + i] = widened(call.table, call.tokens[m], i);
}

// Chain j takes elements j, j + 256, ...; then a halving tree over the chains.
float sum_of_squares(const float* x, std::int64_t k) {
  std::array<float, fma1::kNormLanes> lanes{};
  for (std::int64_t i = 0; i < k; ++i) {
    float& lane = lanes[static_cast<std::size_t>(i % fma1::kNormLanes)];
    lane = std::fma(x[i], x[i], lane);
  }
  for (std::size_t half = fma1::kNormLanes / 2; half >= 1; half /= 2)
    for (std::size_t j = 0; j < half; ++j) lanes[j] = lanes[j] + lanes[j + half];
  return lanes[0];
}

std::optional<kernels::NonFinite> rms_norm(const kernels::RmsNormCall& call) {
  const std::int64_t k = call.x.cols;
  std::optional<kernels::NonFinite> failure;
  for (std::int64_t m = 0; m < call.x.rows; ++m) {
    float* x = call.x.data + m * call.x.stride;
    float* y = call.y.data + m * call.y.stride;
    if (call.delta.data != nullptr)
      for (std::int64_t i = 0; i < k; ++i) x[i] = x[i] + call.delta.data[m * call.delta.stride + i];
    const float sum = sum_of_squares(x, k);
    if (!is_finite_bits(sum) && !failure) failure = {.row = m, .column = 0};
    const float inverse = inverse_rms(sum, k, call.eps);
    for (std::int64_t i = 0; i < k; ++i) y[i] = call.weight[i] * (x[i] * inverse);
  }
  return failure;
}

void silu_gate(const kernels::SiluGateCall& call) {
  for (std::int64_t m = 0; m < call.y.rows; ++m)
    for (std::int64_t i = 0; i < call.y.cols; ++i)
      call.y.data[m * call.y.stride + i] =
          silu(call.gate.data[m * call.gate.stride + i]) * call.up.data[m * call.up.stride + i];
}

void gather_rows(const kernels::GatherRowsCall& call) {
  for (std::int64_t m = 0; m < call.y.rows; ++m) {
    const float* from = call.x.data + call.rows[m] * call.x.stride;
    std::copy(from, from + call.x.cols, call.y.data + m * call.y.stride);
  }
}

void round_bf16(const kernels::RoundBf16Call& call) {
  for (std::int64_t m = 0; m < call.x.rows; ++m)
    for (std::int64_t i = 0; i < call.x.cols; ++i) {
      float& x = call.x.data[m * call.x.stride + i];
      x = widen_bf16(reprofuse::round_bf16(x));
    }
}

namespace {

void normalize(float* head, std::int64_t head_dim, const float* weight, float eps) {
  const float inverse = inverse_rms(sum_of_squares(head, head_dim), head_dim, eps);
  for (std::int64_t d = 0; d < head_dim; ++d) head[d] = weight[d] * (head[d] * inverse);
}

// Element d turns with element d + head_dim / 2.
void rotate(float* head, std::int64_t head_dim, const float* cos, const float* sin) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t d = 0; d < half; ++d) {
    const float a = head[d];
    const float b = head[d + half];
    head[d] = std::fma(a, cos[d], -(b * sin[d]));
    head[d + half] = std::fma(b, cos[d], a * sin[d]);
  }
}

}  // namespace

void rotate_rows(const kernels::RotaryCall& call, StoreHead store) {
  const std::int64_t head_dim = call.kv.head_dim;
  std::vector<float> key(static_cast<std::size_t>(head_dim));
  for (std::int64_t m = 0; m < call.q.rows; ++m) {
    const std::int64_t position = call.batch.positions[m];
    const float* cos = call.cos + position * (head_dim / 2);
    const float* sin = call.sin + position * (head_dim / 2);
    for (std::int64_t h = 0; h < call.q.cols / head_dim; ++h) {
      float* head = call.q.data + m * call.q.stride + h * head_dim;
      if (call.q_norm != nullptr) normalize(head, head_dim, call.q_norm, call.eps);
      rotate(head, head_dim, cos, sin);
    }
    for (std::int64_t h = 0; h < call.kv.kv_heads; ++h) {
      const float* k = call.k.data + m * call.k.stride + h * head_dim;
      const float* v = call.v.data + m * call.v.stride + h * head_dim;
      key.assign(k, k + head_dim);
      if (call.k_norm != nullptr) normalize(key.data(), head_dim, call.k_norm, call.eps);
      rotate(key.data(), head_dim, cos, sin);
      store(call, find_place(call.kv, call.batch, call.batch.sequences[m], position, h), key.data(), v);
    }
  }
}

void rotary(const kernels::RotaryCall& call) {
  rotate_rows(call, [](const kernels::RotaryCall& to, const KvPlace& place, const float* key, const float* value) {
    for (std::int64_t d = 0; d < to.kv.head_dim; ++d) {
      store_element(to.kv.keys, to.kv.dtype, place.key(d), key[d]);
      store_element(to.kv.values, to.kv.dtype, place.value(d), value[d]);
    }
  });
}

namespace {

// The softmax of some keys of one query and head, up to its division: probabilities are exp(score - max).
struct Partial {
  float max = 0.0F;
  float sum = 0.0F;
  std::vector<float> weighted;  // [head_dim]: sum of probability * value
};

// Keys [begin, end) of one block: maximum, then chains in ascending key order. Fails where a score is not finite.
bool block_partial(const kernels::AttentionCall& call, const float* query, std::int64_t sequence, std::int64_t kv_head,
                   std::int64_t begin, std::int64_t end, Partial* partial) {
  const kernels::KvPages& kv = call.kv;
  std::vector<float> scores;
  bool finite = true;
  for (std::int64_t j = begin; j < end; ++j) {
    const KvPlace place = find_place(kv, call.batch, sequence, j, kv_head);
    float dot = 0.0F;
    for (std::int64_t d = 0; d < kv.head_dim; ++d)
      dot = std::fma(query[d], load_element(kv.keys, kv.dtype, place.key(d)), dot);
    scores.push_back(dot * call.scale);
    finite = finite && is_finite_bits(scores.back());
  }
  partial->max = *std::max_element(scores.begin(), scores.end());
  partial->sum = 0.0F;
  partial->weighted.assign(static_cast<std::size_t>(kv.head_dim), 0.0F);
  for (std::int64_t j = begin; j < end; ++j) {
    const KvPlace place = find_place(kv, call.batch, sequence, j, kv_head);
    const float probability = exp_f32(scores[static_cast<std::size_t>(j - begin)] - partial->max);
    partial->sum = partial->sum + probability;
    for (std::int64_t d = 0; d < kv.head_dim; ++d) {
      float& weighted = partial->weighted[static_cast<std::size_t>(d)];
      weighted = std::fma(probability, load_element(kv.values, kv.dtype, place.value(d)), weighted);
    }
  }
  return finite;
}

// total, then next: both rescaled to the larger maximum.
void merge(Partial* total, const Partial& next) {
  const float max = std::max(total->max, next.max);
  const float a = exp_f32(total->max - max);
  const float b = exp_f32(next.max - max);
  total->max = max;
  total->sum = std::fma(total->sum, a, next.sum * b);
  for (std::size_t d = 0; d < total->weighted.size(); ++d)
    total->weighted[d] = std::fma(total->weighted[d], a, next.weighted[d] * b);
}

}  // namespace

std::optional<kernels::NonFinite> attention(const kernels::AttentionCall& call) {
  const std::int64_t head_dim = call.kv.head_dim;
  const std::int64_t group = call.heads / call.kv.kv_heads;
  std::optional<kernels::NonFinite> failure;
  for (std::int64_t m = 0; m < call.q.rows; ++m) {
    const std::int64_t end = call.batch.positions[m] + 1;
    const std::int64_t begin = call.window > 0 ? std::max<std::int64_t>(0, end - call.window) : 0;
    for (std::int64_t h = 0; h < call.heads; ++h) {
      const float* query = call.q.data + m * call.q.stride + h * head_dim;
      Partial total;
      for (std::int64_t block = begin / fma1::kKeyBlock * fma1::kKeyBlock; block < end; block += fma1::kKeyBlock) {
        const std::int64_t first = std::max(begin, block);
        const std::int64_t last = std::min<std::int64_t>(end, block + fma1::kKeyBlock);
        Partial next;
        const bool finite = block_partial(call, query, call.batch.sequences[m], h / group, first, last, &next);
        if (!finite && !failure) failure = {.row = m, .column = h};
        if (first == begin)
          total = std::move(next);
        else
          merge(&total, next);
      }
      float* out = call.out.data + m * call.out.stride + h * head_dim;
      // Adding +0 turns a -0, which a masked key could have lost, into +0.
      for (std::int64_t d = 0; d < head_dim; ++d)
        out[d] = total.weighted[static_cast<std::size_t>(d)] / total.sum + 0.0F;
    }
  }
  return failure;
}

}  // namespace reprofuse::reference
