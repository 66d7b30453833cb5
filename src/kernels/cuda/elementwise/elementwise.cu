// Norms and elementwise operations by contract fma-1, which every contract has.
#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/elementwise/rms_norm.cuh"
#include "numerics/exp_log.hpp"

namespace reprofuse::cuda::ops {
namespace {

template <int kHeld>
__global__ __launch_bounds__(kNormThreads) void rms_norm_held(const __grid_constant__ RmsNormParams p) {
  let_next_kernel_start();
  HeldNorm<kHeld> held;
  held.load_weight(p);
  wait_for_previous_kernel();
  float* y = p.y + blockIdx.x * p.y_stride;
  held.run(p, [&](int column, float value) { y[column] = value; });
}

// Rows of any length: read twice.
__global__ __launch_bounds__(kNormThreads) void rms_norm_long(const __grid_constant__ RmsNormParams p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  float* row = p.x + blockIdx.x * p.x_stride;
  float chain = 0.0f;
#pragma unroll 8
  for (int at = threadIdx.x; at < p.k; at += kNormThreads) {
    float x = row[at];
    if (p.delta != nullptr) {
      x = __fadd_rn(x, p.delta[blockIdx.x * p.delta_stride + at]);
      row[at] = x;
    }
    chain = fma_rn(x, x, chain);
  }
  const float inverse = scale_of_row(p, chain);
  float* y = p.y + blockIdx.x * p.y_stride;
#pragma unroll 8
  for (int at = threadIdx.x; at < p.k; at += kNormThreads) y[at] = __fmul_rn(p.weight[at], __fmul_rn(row[at], inverse));
}

}  // namespace

const void* rms_norm_kernel(int k) {
  if (k <= 4 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<4>);
  if (k <= 12 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<12>);
  if (k <= 16 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<16>);
  if (k <= 32 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<32>);
  return reinterpret_cast<const void*>(&rms_norm_long);
}

namespace {

// Element i of the thread when neighbours go to neighbouring threads.
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

}  // namespace reprofuse::cuda::ops
