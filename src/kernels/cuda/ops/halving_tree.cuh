// The reduction of every norm: reference::sum_of_squares ends in a halving tree over 256 chains.
#pragma once

#include "kernels/cuda/sm_limits.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/order.hpp"

namespace reprofuse::cuda {

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

}  // namespace reprofuse::cuda
