#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/ops/params.hpp"
#include "kernels/cuda/runtime/launch.cuh"
#include "numerics/exp_log.hpp"

namespace reprofuse::cuda::fma1::ops {
namespace {

// Element i of the thread's share when neighbours go to neighbouring threads.
__device__ int spread_column(int i) {
  return (blockIdx.y * kElements + i) * kElementThreads + threadIdx.x;
}

template <typename W>
__global__ __launch_bounds__(kElementThreads) void embedding_rows(const __grid_constant__ EmbeddingParams p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const auto* from = static_cast<const typename W::Bits*>(p.table) + p.tokens[blockIdx.x] * p.table_stride;
  float* to = p.x + blockIdx.x * p.x_stride;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int column = spread_column(i);
    if (column < p.cols) to[column] = W::element(make_uint4(from[column], 0, 0, 0), 0);
  }
}

// Bits: equal reference::silu_gate.
template <bool kAligned>
__global__ __launch_bounds__(kElementThreads) void silu_gate_rows(const __grid_constant__ SiluGateParams p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const float* gate = p.gate + blockIdx.x * p.gate_stride;
  const float* up = p.up + blockIdx.x * p.up_stride;
  float* y = p.y + blockIdx.x * p.y_stride;
  if constexpr (kAligned) {
    const int column = (blockIdx.y * kElementThreads + threadIdx.x) * kElements;
    if (column >= p.cols) return;
    const float4 g = *reinterpret_cast<const float4*>(gate + column);
    const float4 u = *reinterpret_cast<const float4*>(up + column);
    *reinterpret_cast<float4*>(y + column) = make_float4(__fmul_rn(silu(g.x), u.x), __fmul_rn(silu(g.y), u.y),
                                                         __fmul_rn(silu(g.z), u.z), __fmul_rn(silu(g.w), u.w));
  } else {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int column = spread_column(i);
      if (column < p.cols) y[column] = __fmul_rn(silu(gate[column]), up[column]);
    }
  }
}

__global__ __launch_bounds__(kElementThreads) void gather_rows(const __grid_constant__ GatherRowsParams p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const float* from = p.x + p.rows[blockIdx.x] * p.x_stride;
  float* to = p.y + blockIdx.x * p.y_stride;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int column = spread_column(i);
    if (column < p.cols) to[column] = from[column];
  }
}

__global__ __launch_bounds__(kElementThreads) void round_bf16_rows(const __grid_constant__ RoundBf16Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  float* x = p.x + blockIdx.x * p.stride;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const int column = spread_column(i);
    if (column < p.cols) x[column] = Bf16Kv::widen(Bf16Kv::round(x[column]));
  }
}

}  // namespace

const void* embedding_kernel(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return reinterpret_cast<const void*>(&embedding_rows<Bf16Weight>);
    case DType::kF16: return reinterpret_cast<const void*>(&embedding_rows<F16Weight>);
    case DType::kF32: break;
  }
  return reinterpret_cast<const void*>(&embedding_rows<F32Weight>);
}

const void* silu_gate_kernel(bool aligned) {
  return aligned ? reinterpret_cast<const void*>(&silu_gate_rows<true>)
                 : reinterpret_cast<const void*>(&silu_gate_rows<false>);
}

const void* gather_rows_kernel() {
  return reinterpret_cast<const void*>(&gather_rows);
}

const void* round_bf16_kernel() {
  return reinterpret_cast<const void*>(&round_bf16_rows);
}

}  // namespace reprofuse::cuda::fma1::ops
