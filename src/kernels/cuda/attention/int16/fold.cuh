// Numbers of contract int16-1 as its attention kernels compute them, and how blocks of keys are folded.
#pragma once

#include "kernels/cuda/attention/common.cuh"
#include "kernels/cuda/attention/int16/params.hpp"

namespace reprofuse::cuda::int16::ops {

using fma1::ops::masked_score;

using KeyRange = fma1::ops::KeyRangeOf<kKeyBlock>;
using DecodeWork = fma1::ops::DecodeWorkOf<kKeyBlock>;

struct FoldInt16 {
  static constexpr int kBlock = kKeyBlock;
  static constexpr bool kScaled = true;
  __device__ static float exp(float x) { return reprofuse::int16::exp2_nonpositive(x); }
};

// int16::sum_value() of sums that fit 32 bits.
__device__ inline float sum_value(int sum) {
  return __fmul_rn(__int2float_rn(sum), 0x1p-23f);
}

// What merging a block multiplies by: total * a + next * b, and c for its sum of probabilities. A total of nothing has
// the maximum -inf and the value 0, and leaves next as it is.
struct Rescale {
  float max, a, b, c;

  __device__ Rescale(float total_max, float next_max, float next_scale) {
    max = fmaxf(total_max, next_max);
    a = FoldInt16::exp(__fsub_rn(total_max, max));
    c = FoldInt16::exp(__fsub_rn(next_max, max));
    b = __fmul_rn(next_scale, c);
  }
  __device__ float merged_sum(float total, float next) const { return fma_rn(total, a, __fmul_rn(next, c)); }
  __device__ float merged(float total, float next) const { return fma_rn(total, a, __fmul_rn(next, b)); }
};

}  // namespace reprofuse::cuda::int16::ops
