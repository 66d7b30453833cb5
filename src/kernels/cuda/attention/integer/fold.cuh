// Numbers of contracts int16-1 and exact-2 as their attention kernels compute them, and how blocks of keys are folded.
// N is TwoDigits or ThreeDigits.
#pragma once

#include "kernels/cuda/attention/common.cuh"
#include "kernels/cuda/attention/integer/params.hpp"

namespace reprofuse::cuda::integer_attention {

using ops::masked_score;

using KeyRange = ops::KeyRangeOf<kKeyBlock>;
using DecodeWork = ops::DecodeWorkOf<kKeyBlock>;

template <typename N>
struct FoldDigits {
  static constexpr int kBlock = kKeyBlock;
  static constexpr bool kScaled = true;
  __device__ static float exp(float x) { return N::exp2(x); }
};

// int16::sum_value() of sums that fit 32 bits.
__device__ inline float sum_value(int sum) {
  return __fmul_rn(__int2float_rn(sum), 0x1p-23f);
}

// What merging a block multiplies by: total * a + next * b, and c for its sum of probabilities. A total of nothing has
// the maximum -inf and the value 0, and leaves next as it is.
template <typename N>
struct Rescale {
  float max, a, b, c;

  __device__ Rescale(float total_max, float next_max, float next_scale) {
    max = fmaxf(total_max, next_max);
    a = N::exp2(__fsub_rn(total_max, max));
    c = N::exp2(__fsub_rn(next_max, max));
    b = __fmul_rn(next_scale, c);
  }
  __device__ float merged_sum(float total, float next) const { return fma_rn(total, a, __fmul_rn(next, c)); }
};

}  // namespace reprofuse::cuda::integer_attention
