// The reduction of every norm, and a row of a norm in the registers of a CTA of kNormThreads, whatever becomes of it.
#pragma once

#include "kernels/cuda/elementwise/params.hpp"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda::ops {

// The sum of 256 values in shared memory, by a whole warp; every lane gets it.
__device__ inline float halving_tree(const float* lanes) {
  constexpr int kEach = reprofuse::fma1::kNormLanes / kWarp;
  const int lane = threadIdx.x % kWarp;
  float values[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) values[i] = lanes[lane + kWarp * i];
#pragma unroll
  for (int half = kEach / 2; half >= 1; half /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) values[i] = __fadd_rn(values[i], values[i + half]);
  // Lane j < half adds lane j + half; what the lanes from half on add is never read again.
  float sum = values[0];
#pragma unroll
  for (int half = kWarp / 2; half >= 1; half /= 2) sum = __fadd_rn(sum, __shfl_down_sync(~0u, sum, half));
  return __shfl_sync(~0u, sum, 0);
}

// The sum of the row's squares, over all chains; thread j brings chain j. Every thread gets it.
__device__ inline float sum_of_chains(float chain) {
  __shared__ float chains[kNormThreads];
  chains[threadIdx.x] = chain;
  __syncthreads();
  return halving_tree(chains);
}

__device__ inline float scale_of_row(const RmsNormParams& p, float chain) {
  const float sum = sum_of_chains(chain);
  if (threadIdx.x == 0) record_if_not_finite(p.record, p.op, blockIdx.x, 0, sum);
  return inverse_rms(sum, p.k, p.eps);
}

// Bits: equal reference::rms_norm. Thread j owns elements j, j + 256, ...: at most kHeld, all in registers, so that
// the row is read once and its loads are in flight together.
template <int kHeld>
struct HeldNorm {
  float weight[kHeld], x[kHeld];

  __device__ static int column(int i) { return threadIdx.x + i * kNormThreads; }

  // Constants: before the kernel that makes the row has finished.
  __device__ void load_weight(const RmsNormParams& p) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) weight[i] = column(i) < p.k ? __ldg(p.weight + column(i)) : 0.0f;
  }
  // Adds the delta of row blockIdx.x, if there is one, and calls take(column, y) for each element of the result.
  template <typename Take>
  __device__ void run(const RmsNormParams& p, const Take& take) {
    float delta[kHeld];
    float* row = p.x + blockIdx.x * p.x_stride;
    const float* add = p.delta == nullptr ? nullptr : p.delta + blockIdx.x * p.delta_stride;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = column(i);
      x[i] = at < p.k ? row[at] : 0.0f;
      delta[i] = at < p.k && add != nullptr ? add[at] : 0.0f;
    }
    float chain = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int at = column(i);
      if (add != nullptr) {
        x[i] = __fadd_rn(x[i], delta[i]);
        if (at < p.k) row[at] = x[i];
      }
      chain = fma_rn(x[i], x[i], chain);  // beyond the row: + 0, which changes no sum of squares
    }
    const float inverse = scale_of_row(p, chain);
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (column(i) < p.k) take(column(i), __fmul_rn(weight[i], __fmul_rn(x[i], inverse)));
  }
};

}  // namespace reprofuse::cuda::ops
