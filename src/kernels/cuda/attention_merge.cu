#include "kernels/cuda/attention_common.cuh"
#include "kernels/cuda/launch.cuh"

namespace reprofuse::cuda::fma1::ops {
namespace {

static_assert(kMergeThreads == kMergeHeads * kWarp);

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

// The partials of one row and head. Each is read once: past the L1.
struct Partials {
  const float4* weighted;  // [count][vectors]
  const float2* max_and_sum;
  int count, vectors;

  __device__ Partials(const AttentionParams& p, int slot, int head, int count_)
      : count(count_), vectors(p.kv.head_dim / 4) {
    const std::int64_t first = (static_cast<std::int64_t>(slot) * p.heads + head) * p.key_blocks;
    weighted = reinterpret_cast<const float4*>(p.weighted) + first * vectors;
    max_and_sum = p.max_and_sum + first;
  }
  __device__ float4 elements(int partial, int vector) const {
    const bool has = partial < count && vector < vectors;
    return has ? __ldcg(weighted + static_cast<std::int64_t>(partial) * vectors + vector) : float4{};
  }
  __device__ float2 scale(int partial) const {
    return partial < count ? __ldcg(max_and_sum + partial) : make_float2(masked_score(), 0.0f);
  }
};

// Folds the partials of one row and head from left to right. A warp does it, a lane has kVectors times four elements.
template <int kVectors>
__device__ void fold_partials(const AttentionParams& p, const Partials& partials, float* out) {
  constexpr int kAhead = 16 / kVectors;  // partials on their way
  static_assert(kWarp % kAhead == 0);
  const int lane = threadIdx.x % kWarp;
  float4 next[kAhead][kVectors], total[kVectors] = {};
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
#pragma unroll
    for (int j = 0; j < kVectors; ++j) next[i][j] = partials.elements(i, lane + j * kWarp);
  float2 scale = partials.scale(lane);
  float sum = 0.0f, max = masked_score();
  for (int run = 0; run < partials.count; run += kWarp) {
    const FoldSteps steps(scale, &max);
    scale = partials.scale(run + kWarp + lane);
    const int length = min(kWarp, partials.count - run);
    for (int begin = 0; begin < length; begin += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const float a = __shfl_sync(~0u, steps.a, begin + i), b = __shfl_sync(~0u, steps.b, begin + i);
        const float scaled_sum = __shfl_sync(~0u, steps.scaled_sum, begin + i);
        if (begin + i >= length) break;
        sum = fma_rn(sum, a, scaled_sum);
#pragma unroll
        for (int j = 0; j < kVectors; ++j) {
          total[j].x = fma_rn(total[j].x, a, __fmul_rn(next[i][j].x, b));
          total[j].y = fma_rn(total[j].y, a, __fmul_rn(next[i][j].y, b));
          total[j].z = fma_rn(total[j].z, a, __fmul_rn(next[i][j].z, b));
          total[j].w = fma_rn(total[j].w, a, __fmul_rn(next[i][j].w, b));
          next[i][j] = partials.elements(run + begin + kAhead + i, lane + j * kWarp);
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int d = 4 * (lane + j * kWarp);
    if (d >= p.kv.head_dim) break;
    out[d] = finished(total[j].x, sum);  // rows of the result may start anywhere: no vectors
    out[d + 1] = finished(total[j].y, sum);
    out[d + 2] = finished(total[j].z, sum);
    out[d + 3] = finished(total[j].w, sum);
  }
}

// The partials of a row that blocks of decode share. A warp has one head.
template <int kVectors>
__global__ __launch_bounds__(kMergeThreads) void attention_merge(const __grid_constant__ AttentionParams p) {
  let_next_kernel_start();
  const DecodeRow at(p, blockIdx.y);
  wait_for_previous_kernel();
  const int head = blockIdx.x * kMergeHeads + threadIdx.x / kWarp;
  if (at.key_blocks == 0 || head >= p.heads) return;
  fold_partials<kVectors>(p, Partials(p, at.slot, head, at.key_blocks),
                          p.out + at.row * p.out_stride + head * p.kv.head_dim);
}

}  // namespace

const void* merge_kernel(int head_dim) {
  return head_dim <= 4 * kWarp ? reinterpret_cast<const void*>(&attention_merge<1>)
                               : reinterpret_cast<const void*>(&attention_merge<2>);
}

}  // namespace reprofuse::cuda::fma1::ops
