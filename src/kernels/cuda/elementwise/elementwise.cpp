#include "kernels/cuda/elementwise/elementwise.hpp"

#include "base/math.hpp"
#include "kernels/cuda/elementwise/params.hpp"

namespace reprofuse::cuda {
namespace {

template <typename Params>
void launch_rows(const char* op, const Launch& launch, const void* kernel, std::int64_t rows, std::int64_t cols,
                 const Params& params) {
  if (rows == 0 || cols == 0) return;
  require_rows(op, rows);
  const auto pieces = ceil_div<std::int64_t>(cols, std::int64_t{ops::kElementThreads} * ops::kElements);
  require(pieces <= kMaxGridYZ, "{}: rows of {} columns are more than the CUDA backend takes", op, cols);
  const DeviceScope device(launch.ordinal);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(pieces)),
                        .threads = ops::kElementThreads};
  check(launch_kernel(kernel, shape, params, launch.stream), op);
}

bool is_aligned(const float* data, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 4 == 0;
}

}  // namespace

void embedding(const Launch& launch, const kernels::EmbeddingCall& call) {
  const ops::EmbeddingParams params{.table = call.table.data,
                                    .table_stride = call.table.stride,
                                    .tokens = call.tokens,
                                    .x = call.x.data,
                                    .x_stride = call.x.stride,
                                    .cols = static_cast<int>(call.x.cols)};
  const void* kernel = ops::embedding_kernel(call.table.dtype);
  launch_rows("embedding", launch, kernel, call.x.rows, call.x.cols, params);
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

void silu_gate(const Launch& launch, const kernels::SiluGateCall& call) {
  const ops::SiluGateParams params = silu_gate_params(call);
  launch_rows("silu_gate", launch, ops::silu_gate_kernel(params.aligned), call.y.rows, call.y.cols, params);
}

void gather_rows(const Launch& launch, const kernels::GatherRowsCall& call) {
  const ops::GatherRowsParams params{.x = call.x.data,
                                     .rows = call.rows,
                                     .y = call.y.data,
                                     .x_stride = call.x.stride,
                                     .y_stride = call.y.stride,
                                     .cols = static_cast<int>(call.x.cols)};
  launch_rows("gather_rows", launch, ops::gather_rows_kernel(), call.y.rows, call.x.cols, params);
}

void round_bf16(const Launch& launch, const kernels::RoundBf16Call& call) {
  const ops::RoundBf16Params params{.x = call.x.data, .stride = call.x.stride, .cols = static_cast<int>(call.x.cols)};
  launch_rows("round_bf16", launch, ops::round_bf16_kernel(), call.x.rows, call.x.cols, params);
}

ops::RmsNormParams norm_params(const Launch& launch, const kernels::RmsNormCall& call) {
  return {.x = call.x.data,
          .delta = call.delta.data,
          .weight = call.weight,
          .y = call.y.data,
          .x_stride = call.x.stride,
          .delta_stride = call.delta.stride,
          .y_stride = call.y.stride,
          .k = static_cast<int>(call.x.cols),
          .eps = call.eps,
          .op = launch.op,
          .record = record_of(launch)};
}

void rms_norm(const Launch& launch, const kernels::RmsNormCall& call) {
  if (call.x.rows == 0) return;
  require_rows("rms_norm", call.x.rows);
  const DeviceScope device(launch.ordinal);
  const ops::RmsNormParams params = norm_params(launch, call);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(call.x.rows)), .threads = ops::kNormThreads};
  check(launch_kernel(ops::rms_norm_kernel(params.k), shape, params, launch.stream), "rms_norm");
}

void rotary(const Launch& launch, const kernels::RotaryCall& call) {
  rotary_with(launch, call, ops::rotary_kernel(call.kv.dtype == DType::kBF16));
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

void rotary_with(const Launch& launch, const kernels::RotaryCall& call, const void* kernel) {
  if (call.q.rows == 0) return;
  require_rows("rotary", call.q.rows);
  const int head_dim = call.kv.head_dim;
  require(head_dim % 2 == 0 && head_dim <= ops::kMaxHeadDim,
          "rotary: head_dim {}; the CUDA backend takes even ones up to {}", head_dim, ops::kMaxHeadDim);
  const DeviceScope device(launch.ordinal);
  const ops::RotaryParams params = rotary_params(call);
  const int slots = params.heads + params.kv.kv_heads;
  const GridShape shape{
      .grid = dim3(static_cast<unsigned>(call.q.rows), static_cast<unsigned>(ceil_div(slots, ops::kRotaryWarps))),
      .threads = ops::kRotaryWarps * 32};
  check(launch_kernel(kernel, shape, params, launch.stream), "rotary");
}

}  // namespace reprofuse::cuda
