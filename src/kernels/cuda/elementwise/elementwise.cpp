#include "kernels/cuda/elementwise/elementwise.hpp"

#include "base/math.hpp"
#include "kernels/cuda/elementwise/params.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda {
namespace {

template <typename Params>
void launch_rows(const char* op, const DeviceSite& site, const void* kernel, std::int64_t rows, std::int64_t cols,
                 const Params& params) {
  if (rows == 0 || cols == 0) return;
  require_rows(op, rows);
  const auto pieces = ceil_div<std::int64_t>(cols, std::int64_t{ops::kElementThreads} * ops::kElements);
  require(pieces <= kMaxGridYZ, "{}: rows of {} columns are more than the CUDA backend takes", op, cols);
  const DeviceScope device(site.ordinal);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(pieces)),
                        .threads = ops::kElementThreads};
  check(launch_kernel(kernel, shape, params, site.stream), op);
}

bool is_aligned(const float* data, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 4 == 0;
}

}  // namespace

void embedding(const DeviceSite& site, const kernels::EmbeddingCall& call) {
  const ops::EmbeddingParams params{.table = call.table.data,
                                    .table_stride = call.table.stride,
                                    .tokens = call.tokens,
                                    .x = call.x.data,
                                    .x_stride = call.x.stride,
                                    .cols = static_cast<int>(call.x.cols)};
  const void* kernel = ops::embedding_kernel(call.table.dtype);
  launch_rows("embedding", site, kernel, call.x.rows, call.x.cols, params);
}

ops::SiluGateParams silu_gate_params(const kernels::SiluGateCall& call) {
  return {.gate = call.gate.data,
          .up = call.up.data,
          .y = call.y.data,
          .gate_stride = call.gate.stride,
          .up_stride = call.up.stride,
          .y_stride = call.y.stride,
          .cols = static_cast<int>(call.y.cols),
          .aligned = call.y.cols % 4 == 0 && is_aligned(call.gate.data, call.gate.stride) &&
                     is_aligned(call.up.data, call.up.stride) && is_aligned(call.y.data, call.y.stride)};
}

void silu_gate(const DeviceSite& site, const kernels::SiluGateCall& call) {
  const ops::SiluGateParams params = silu_gate_params(call);
  launch_rows("silu_gate", site, ops::silu_gate_kernel(params.aligned), call.y.rows, call.y.cols, params);
}

void gather_rows(const DeviceSite& site, const kernels::GatherRowsCall& call) {
  const ops::GatherRowsParams params{.x = call.x.data,
                                     .rows = call.rows,
                                     .y = call.y.data,
                                     .x_stride = call.x.stride,
                                     .y_stride = call.y.stride,
                                     .cols = static_cast<int>(call.x.cols)};
  launch_rows("gather_rows", site, ops::gather_rows_kernel(), call.y.rows, call.x.cols, params);
}

void round_bf16(const DeviceSite& site, const kernels::RoundBf16Call& call) {
  const ops::RoundBf16Params params{.x = call.x.data, .stride = call.x.stride, .cols = static_cast<int>(call.x.cols)};
  launch_rows("round_bf16", site, ops::round_bf16_kernel(), call.x.rows, call.x.cols, params);
}

ops::RmsNormParams norm_params(const DeviceSite& site, const kernels::RmsNormCall& call) {
  return {.x = call.x.data,
          .delta = call.delta.data,
          .weight = call.weight,
          .y = call.y.data,
          .x_stride = call.x.stride,
          .delta_stride = call.delta.stride,
          .y_stride = call.y.stride,
          .k = static_cast<int>(call.x.cols),
          .eps = call.eps,
          .op = site.op,
          .record = record_of(site)};
}

void rms_norm(const DeviceSite& site, const kernels::RmsNormCall& call) {
  if (call.x.rows == 0) return;
  require_rows("rms_norm", call.x.rows);
  const DeviceScope device(site.ordinal);
  const ops::RmsNormParams params = norm_params(site, call);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(call.x.rows)), .threads = ops::kNormThreads};
  check(launch_kernel(ops::rms_norm_kernel(params.k), shape, params, site.stream), "rms_norm");
}

}  // namespace reprofuse::cuda
