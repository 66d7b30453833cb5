#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/reference/reference.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/order.hpp"
#include "numerics/widen.hpp"

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

std::optional<kernels::Place> rms_norm(const kernels::RmsNormCall& call) {
  const std::int64_t k = call.x.cols;
  std::optional<kernels::Place> failure;
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

}  // namespace reprofuse::reference
