#include "base/math.hpp"
#include "kernels/cuda/ops/ops_launch.hpp"
#include "kernels/cuda/ops/params.hpp"

namespace reprofuse::cuda {

void rotary(const Launch& launch, const kernels::RotaryCall& call) {
  if (call.q.rows == 0) return;
  require_rows("rotary", call.q.rows);
  const int head_dim = call.kv.head_dim;
  require(head_dim % 2 == 0 && head_dim <= fma1::ops::kMaxRotaryHeadDim,
          "rotary: head_dim {}; the CUDA backend takes even ones up to {}", head_dim, fma1::ops::kMaxRotaryHeadDim);
  const DeviceScope device(launch.ordinal);
  const fma1::ops::RotaryParams params{.q = call.q.data,
                                       .k = call.k.data,
                                       .v = call.v.data,
                                       .q_stride = call.q.stride,
                                       .k_stride = call.k.stride,
                                       .v_stride = call.v.stride,
                                       .q_norm = call.q_norm,
                                       .k_norm = call.k_norm,
                                       .cos = call.cos,
                                       .sin = call.sin,
                                       .positions = call.batch.positions,
                                       .sequences = call.batch.sequences,
                                       .eps = call.eps,
                                       .heads = static_cast<int>(call.q.cols / head_dim),
                                       .kv = view_of("rotary", call.kv, call.batch)};
  const int slots = params.heads + params.kv.kv_heads;
  const GridShape shape{
      .grid = dim3(static_cast<unsigned>(call.q.rows), static_cast<unsigned>(ceil_div(slots, fma1::ops::kRotaryWarps))),
      .threads = fma1::ops::kRotaryWarps * 32};
  const bool bf16 = call.kv.dtype == DType::kBF16;
  check(launch_kernel(fma1::ops::rotary_kernel(bf16), shape, params, launch.stream), "rotary");
}

}  // namespace reprofuse::cuda
