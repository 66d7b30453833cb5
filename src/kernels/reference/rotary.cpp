#include <cmath>
#include <vector>

#include "kernels/reference/kv_element.hpp"
#include "kernels/reference/model_ops.hpp"
#include "numerics/inverse_rms.hpp"

namespace reprofuse::reference {
namespace {

void normalise(float* head, std::int64_t head_dim, const float* weight, float eps) {
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

void rotary(const kernels::RotaryCall& call) {
  const std::int64_t head_dim = call.kv.head_dim;
  std::vector<float> key(static_cast<std::size_t>(head_dim));
  for (std::int64_t m = 0; m < call.q.rows; ++m) {
    const std::int64_t position = call.batch.positions[m];
    const float* cos = call.cos + position * (head_dim / 2);
    const float* sin = call.sin + position * (head_dim / 2);
    for (std::int64_t h = 0; h < call.q.cols / head_dim; ++h) {
      float* head = call.q.data + m * call.q.stride + h * head_dim;
      if (call.q_norm != nullptr) normalise(head, head_dim, call.q_norm, call.eps);
      rotate(head, head_dim, cos, sin);
    }
    for (std::int64_t h = 0; h < call.kv.kv_heads; ++h) {
      const float* k = call.k.data + m * call.k.stride + h * head_dim;
      const float* v = call.v.data + m * call.v.stride + h * head_dim;
      key.assign(k, k + head_dim);
      if (call.k_norm != nullptr) normalise(key.data(), head_dim, call.k_norm, call.eps);
      rotate(key.data(), head_dim, cos, sin);
      const KvPlace place = find_place(call.kv, call.batch, call.batch.sequences[m], position, h);
      for (std::int64_t d = 0; d < head_dim; ++d) {
        store_element(call.kv.keys, call.kv.dtype, place.key(d), key[static_cast<std::size_t>(d)]);
        store_element(call.kv.values, call.kv.dtype, place.value(d), v[d]);
      }
    }
  }
}

}  // namespace reprofuse::reference
