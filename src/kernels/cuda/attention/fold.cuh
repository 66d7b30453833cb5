// The order in which the partials of a row are folded: by the merge kernel, or by the blocks of a cluster.
#pragma once

#include "kernels/cuda/attention/common.cuh"

namespace reprofuse::cuda::fma1::ops {

// How a run of up to 32 partials is folded, partial l by lane l. A maximum does not depend on order, so the maxima
// before and after each step of the fold come from a scan, and the exponentials of all steps are computed at once.
struct FoldSteps {
  float a, b, scaled_sum;  // total = total * a + next * b

  __device__ FoldSteps(float2 max_and_sum, float* running_max) {
    const int lane = threadIdx.x % kWarp;
    float max = lane == 0 ? fmaxf(*running_max, max_and_sum.x) : max_and_sum.x;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const float before = __shfl_up_sync(~0u, max, step);
      if (lane >= step) max = fmaxf(max, before);
    }
    float before = __shfl_up_sync(~0u, max, 1);
    if (lane == 0) before = *running_max;
    a = exp_nonpositive_f32(__fsub_rn(before, max));
    b = exp_nonpositive_f32(__fsub_rn(max_and_sum.x, max));
    scaled_sum = __fmul_rn(max_and_sum.y, b);
    *running_max = __shfl_sync(~0u, max, kWarp - 1);
  }
};

}  // namespace reprofuse::cuda::fma1::ops
