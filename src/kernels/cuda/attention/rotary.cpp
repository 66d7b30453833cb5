// Rotary embedding on CUDA, by the kernel of any contract: it stores keys and values where attention reads them.
#include "base/math.hpp"
#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda {

void rotary(const DeviceSite& site, const kernels::RotaryCall& call) {
  rotary_with(site, call, ops::rotary_kernel(call.kv.dtype == DType::kBF16));
}

ops::RotaryParams rotary_params(const kernels::RotaryCall& call) {
  return {.q = call.q.data,
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
          .heads = static_cast<int>(call.q.cols / call.kv.head_dim),
          .kv = view_of("rotary", call.kv, call.batch)};
}

void rotary_with(const DeviceSite& site, const kernels::RotaryCall& call, const void* kernel) {
  if (call.q.rows == 0) return;
  require_rows("rotary", call.q.rows);
  const int head_dim = call.kv.head_dim;
  require(head_dim % 2 == 0 && head_dim <= ops::kMaxHeadDim,
          "rotary: head_dim {}; the CUDA backend takes even ones up to {}", head_dim, ops::kMaxHeadDim);
  const DeviceScope device(site.ordinal);
  const ops::RotaryParams params = rotary_params(call);
  const int heads = params.heads + params.kv.kv_heads;
  const GridShape shape{
      .grid = dim3(static_cast<unsigned>(call.q.rows), static_cast<unsigned>(ceil_div(heads, ops::kRotaryWarps))),
      .threads = ops::kRotaryWarps * 32};
  check(launch_kernel(kernel, shape, params, site.stream), "rotary");
}

}  // namespace reprofuse::cuda
