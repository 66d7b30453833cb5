#include "kernels/cuda/attention_common.cuh"
#include "kernels/cuda/launch.cuh"

namespace reprofuse::cuda::fma1::ops {
namespace {

constexpr int kAhead = 16;  // partials that a thread loads at a time
constexpr int kDims = kMostHeadDim / kMergeThreads;

// How a run of up to 32 partials is folded, partial l by lane l. A maximum does not depend on order, so the maxima
// before and after each step of the fold come from a scan, and the exponentials of all steps are computed at once.
struct FoldSteps {
  float a, b, scaled_sum;  // total = total * a + next * b

  __device__ FoldSteps(const float2* max_and_sum, int count, float* running_max) {
    const int lane = threadIdx.x % kWarp;
    const float2 own = lane < count ? max_and_sum[lane] : make_float2(masked_score(), 0.0f);
    float max = lane == 0 ? fmaxf(*running_max, own.x) : own.x;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const float before = __shfl_up_sync(~0u, max, step);
      if (lane >= step) max = fmaxf(max, before);
    }
    float before = __shfl_up_sync(~0u, max, 1);
    if (lane == 0) before = *running_max;
    a = exp_nonpositive_f32(__fsub_rn(before, max));
    b = exp_nonpositive_f32(__fsub_rn(own.x, max));
    scaled_sum = __fmul_rn(own.y, b);
    *running_max = __shfl_sync(~0u, max, kWarp - 1);
  }
};

// Folds the partials of one row and head from left to right.
__global__ __launch_bounds__(kMergeThreads) void attention_merge(const __grid_constant__ AttentionParams p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int slot = blockIdx.y, head = blockIdx.x;
  const int row = row_of_slot(p, slot);
  if (row < 0) return;
  const int count = min(KeyRange(p, p.positions[row]).blocks(), p.key_blocks);
  const int head_dim = p.kv.head_dim;
  const std::int64_t first = (static_cast<std::int64_t>(slot) * p.heads + head) * p.key_blocks;
  float weighted[kDims] = {}, sum = 0.0f, max = masked_score();
  for (int run = 0; run < count; run += kWarp) {
    const int length = min(kWarp, count - run);
    const FoldSteps steps(p.max_and_sum + first + run, length, &max);
    for (int begin = 0; begin < length; begin += kAhead) {
      float next[kAhead][kDims];
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
#pragma unroll
        for (int j = 0; j < kDims; ++j) {
          const int d = threadIdx.x + j * kMergeThreads;
          const bool has = begin + i < length && d < head_dim;
          next[i][j] = has ? p.weighted[(first + run + begin + i) * head_dim + d] : 0.0f;
        }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float a = __shfl_sync(~0u, steps.a, begin + i), b = __shfl_sync(~0u, steps.b, begin + i);
        const float scaled_sum = __shfl_sync(~0u, steps.scaled_sum, begin + i);
        if (begin + i >= length) break;
        sum = fma_rn(sum, a, scaled_sum);
#pragma unroll
        for (int j = 0; j < kDims; ++j) weighted[j] = fma_rn(weighted[j], a, __fmul_rn(next[i][j], b));
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kDims; ++j) {
    const int d = threadIdx.x + j * kMergeThreads;
    if (d < head_dim) p.out[row * p.out_stride + head * head_dim + d] = finished(weighted[j], sum);
  }
}

}  // namespace

const void* merge_kernel() {
  return reinterpret_cast<const void*>(&attention_merge);
}

}  // namespace reprofuse::cuda::fma1::ops
