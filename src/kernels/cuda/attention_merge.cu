#include "kernels/cuda/attention_fold.cuh"
#include "kernels/cuda/launch.cuh"

namespace reprofuse::cuda::fma1::ops {
namespace {

static_assert(kMergeElements == kWarp && kMergeRun == kWarp);

// The partials of one row and head that decode stored; each is read once.
struct Partials {
  const float* weighted;  // [count][head_dim], from the first element of this block on
  const float2* max_and_sum;
  int count, head_dim, elements;

  __device__ Partials(const AttentionParams& p, const DecodeRow& at, int head, int first_element)
      : count(at.key_blocks), head_dim(p.kv.head_dim), elements(min(kMergeElements, p.kv.head_dim - first_element)) {
    const std::int64_t first = (static_cast<std::int64_t>(at.slot) * p.heads + head) * p.key_blocks;
    weighted = p.weighted + first * head_dim + first_element;
    max_and_sum = p.max_and_sum + first;
  }
  // A run of elements on its way: [kMergeRun][kMergeElements].
  __device__ void fetch(int run, float* to) const {
    constexpr int kVectors = kMergeElements / 4;
    const int lane = threadIdx.x % kWarp, element = lane % kVectors * 4;
#pragma unroll
    for (int i = lane / kVectors; i < kMergeRun; i += kWarp / kVectors) {
      const int partial = run * kMergeRun + i;
      if (partial < count && element < elements)
        copy_async(to + i * kMergeElements + element,
                   weighted + static_cast<std::int64_t>(partial) * head_dim + element);
    }
    commit_copies();
  }
  __device__ float element(int partial) const {
    const int lane = threadIdx.x % kWarp;
    return partial < count && lane < elements ? __ldcg(weighted + static_cast<std::int64_t>(partial) * head_dim + lane)
                                              : 0.0f;
  }
  __device__ float2 scale(int run) const {
    const int partial = run * kMergeRun + threadIdx.x % kWarp;
    return partial < count ? __ldcg(max_and_sum + partial) : make_float2(masked_score(), 0.0f);
  }
};

// Runs that are on their way at once.
__host__ __device__ int runs_ahead(int key_blocks) {
  const int runs = ceil_div(key_blocks, kMergeRun);
  return runs < kMergeRunsAhead ? runs : kMergeRunsAhead;
}

// Folds the partials of a row that blocks of decode share, from left to right. A block has a head, a warp some elements
// of it, a lane one. Partials come in runs, many of them on their way at once.
__global__ __launch_bounds__(kMostHeadDim) void attention_merge(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(16) float memory[];  // [warps][runs_ahead][kMergeRun][kMergeElements]
  let_next_kernel_start();
  const DecodeRow at(p, blockIdx.y);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  wait_for_previous_kernel();
  const int head = blockIdx.x, first_element = warp * kMergeElements;
  const Partials partials(p, at, head, first_element);
  constexpr int kRunElements = kMergeRun * kMergeElements;
  float* runs = memory + warp * runs_ahead(p.key_blocks) * kRunElements;
  const auto place = [&](int run) { return runs + run % kMergeRunsAhead * kRunElements; };
  for (int run = 0; run < kMergeRunsAhead; ++run) partials.fetch(run, place(run));
  float2 scale = partials.scale(0), next_scale = partials.scale(1);
  float total = 0.0f, sum = 0.0f, max = masked_score();
  for (int run = 0; run * kMergeRun < partials.count; ++run) {
    const FoldSteps steps(scale, &max);
    scale = next_scale;
    next_scale = partials.scale(run + 2);
    wait_for_copies<kMergeRunsAhead - 1>();
    __syncwarp();
    const float* next = place(run) + lane;
    const int length = min(kMergeRun, partials.count - run * kMergeRun);
#pragma unroll 8
    for (int i = 0; i < length; ++i) {
      const float a = __shfl_sync(~0u, steps.a, i), b = __shfl_sync(~0u, steps.b, i);
      sum = fma_rn(sum, a, __shfl_sync(~0u, steps.scaled_sum, i));
      total = fma_rn(total, a, __fmul_rn(next[i * kMergeElements], b));
    }
    __syncwarp();
    partials.fetch(run + kMergeRunsAhead, place(run));
  }
  if (partials.count > 0 && lane < partials.elements)
    p.out[at.row * p.out_stride + head * p.kv.head_dim + first_element + lane] = finished(total, sum);
}

// The same for a single run, whose partials come straight into registers.
__global__ __launch_bounds__(kMostHeadDim) void attention_merge_few(const __grid_constant__ AttentionParams p) {
  constexpr int kAhead = 16;  // partials on their way
  let_next_kernel_start();
  const DecodeRow at(p, blockIdx.y);
  const int lane = threadIdx.x % kWarp, head = blockIdx.x, first_element = threadIdx.x / kWarp * kMergeElements;
  wait_for_previous_kernel();
  const Partials partials(p, at, head, first_element);
  if (partials.count == 0) return;
  float next[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) next[i] = partials.element(i);
  float total = 0.0f, sum = 0.0f, max = masked_score();
  const FoldSteps steps(partials.scale(0), &max);
  for (int begin = 0; begin < partials.count; begin += kAhead)
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float a = __shfl_sync(~0u, steps.a, begin + i), b = __shfl_sync(~0u, steps.b, begin + i);
      const float scaled_sum = __shfl_sync(~0u, steps.scaled_sum, begin + i);
      if (begin + i >= partials.count) break;
      sum = fma_rn(sum, a, scaled_sum);
      total = fma_rn(total, a, __fmul_rn(next[i], b));
      next[i] = partials.element(begin + kAhead + i);
    }
  if (lane < partials.elements)
    p.out[at.row * p.out_stride + head * p.kv.head_dim + first_element + lane] = finished(total, sum);
}

}  // namespace

AttentionKernel merge_kernel(int head_dim, int key_blocks) {
  const int warps = ceil_div(head_dim, kMergeElements);
  if (key_blocks <= kMergeRun)
    return {
        .function = reinterpret_cast<const void*>(&attention_merge_few), .threads = warps * kWarp, .shared_bytes = 0};
  const int floats = warps * runs_ahead(key_blocks) * kMergeRun * kMergeElements;
  return {.function = reinterpret_cast<const void*>(&attention_merge),
          .threads = warps * kWarp,
          .shared_bytes = floats * static_cast<int>(sizeof(float))};
}

}  // namespace reprofuse::cuda::fma1::ops
