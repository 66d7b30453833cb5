#include <algorithm>

#include "kernels/reference/linear.hpp"
#include "kernels/reference/model_ops.hpp"
#include "numerics/silu.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::reference {

void embedding(const kernels::EmbeddingCall& call) {
  for (std::int64_t m = 0; m < call.x.rows; ++m)
    for (std::int64_t i = 0; i < call.x.cols; ++i)
      call.x.data[m * call.x.stride + i] = widened(call.table, call.tokens[m], i);
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
