#include "kernels/cuda/ops/halving_tree.cuh"
#include "kernels/cuda/ops/params.hpp"
#include "kernels/cuda/runtime/launch.cuh"
#include "numerics/float_ops.hpp"

namespace reprofuse::cuda::fma1::ops {
namespace {

// The sum of the row's squares, over all chains; thread j brings chain j. Every thread gets it.
__device__ float sum_of_chains(float chain) {
  __shared__ float chains[kNormThreads];
  chains[threadIdx.x] = chain;
  __syncthreads();
  return halving_tree(chains);
}

__device__ float scale_of_row(const RmsNormParams& p, float chain) {
  const float sum = sum_of_chains(chain);
  if (threadIdx.x == 0) record_if_not_finite(p.record, p.op, blockIdx.x, 0, sum);
  return inverse_rms(sum, p.k, p.eps);
}

// Bits: equal reference::rms_norm. Thread j owns elements j, j + 256, ...: at most kHeld, all in registers, so that
// the row is read once and its loads are in flight together.
template <int kHeld>
__global__ __launch_bounds__(kNormThreads) void rms_norm_held(const __grid_constant__ RmsNormParams p) {
  let_next_kernel_start();
  float weight[kHeld], x[kHeld], delta[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int at = threadIdx.x + i * kNormThreads;
    weight[i] = at < p.k ? __ldg(p.weight + at) : 0.0f;
  }
  wait_for_previous_kernel();
  float* row = p.x + blockIdx.x * p.x_stride;
  const float* add = p.delta == nullptr ? nullptr : p.delta + blockIdx.x * p.delta_stride;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int at = threadIdx.x + i * kNormThreads;
    x[i] = at < p.k ? row[at] : 0.0f;
    delta[i] = at < p.k && add != nullptr ? add[at] : 0.0f;
  }
  float chain = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int at = threadIdx.x + i * kNormThreads;
    if (add != nullptr) {
      x[i] = __fadd_rn(x[i], delta[i]);
      if (at < p.k) row[at] = x[i];
    }
    chain = fma_rn(x[i], x[i], chain);  // beyond the row: + 0, which changes no sum of squares
  }
  const float inverse = scale_of_row(p, chain);
  float* y = p.y + blockIdx.x * p.y_stride;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int at = threadIdx.x + i * kNormThreads;
    if (at < p.k) y[at] = __fmul_rn(weight[i], __fmul_rn(x[i], inverse));
  }
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

}  // namespace reprofuse::cuda::fma1::ops
