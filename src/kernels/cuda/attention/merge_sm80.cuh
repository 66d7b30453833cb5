// The merge of decode: folds the partials of a row from left to right, by the rules of a contract.
#pragma once

#include "kernels/cuda/attention/common.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::ops {

static_assert(kMergeElements == kWarp && kMergeRun == kWarp, "a lane has an element, and a partial of a run");

// The partials of one row and head that decode stored; each is read once.
template <typename Rules>
struct Partials {
  const float* weighted;  // [count][head_dim], from the first element of this warp on
  const float2* max_and_sum;
  const float* scales;
  int count, head_dim, elements;

  __device__ Partials(const AttentionParams& p, const DecodeRowOf<Rules::kBlock>& at, int head, int first_element)
      : count(at.key_blocks), head_dim(p.kv.head_dim), elements(min(kMergeElements, p.kv.head_dim - first_element)) {
    const std::int64_t first = at.partial(p, head, 0);
    weighted = p.weighted + first * head_dim + first_element;
    max_and_sum = p.max_and_sum + first;
    scales = p.scales + first;
  }
  // Starts to fetch a run of elements, [kMergeRun][kMergeElements]; zeros for partials beyond the last.
  __device__ void fetch(int run, float* to) const {
    constexpr int kVectors = kMergeElements / 4, kAtOnce = kWarp / kVectors;
    const int lane = threadIdx.x % kWarp, in_run = lane / kVectors, element = lane % kVectors * 4;
    const int first = run * kMergeRun + in_run;
    const float* from = weighted + static_cast<std::int64_t>(first) * head_dim + element;
    if (run * kMergeRun < count && element < elements)
#pragma unroll
      for (int i = 0; i < kMergeRun; i += kAtOnce) {
        const bool stored = first + i < count;
        ptx::cp_async_or_zero(to + (in_run + i) * kMergeElements + element, stored ? from + i * head_dim : weighted,
                              stored);
      }
    ptx::cp_async_commit_group();
  }
  __device__ float element(int partial) const {
    const int lane = threadIdx.x % kWarp;
    return partial < count && lane < elements ? __ldcg(weighted + static_cast<std::int64_t>(partial) * head_dim + lane)
                                              : 0.0f;
  }
  __device__ PartialHead head_of(int run) const {
    const int partial = run * kMergeRun + threadIdx.x % kWarp;
    if (partial >= count) return {masked_score(), 0.0f, 0.0f};
    const float2 own = __ldcg(max_and_sum + partial);
    return {own.x, own.y, Rules::kScaled ? __ldcg(scales + partial) : 0.0f};
  }
};

// How a group of runs of partials is folded, in shared memory.
template <typename Rules>
struct RunGroup {
  float4* steps;   // of each partial: a, b and the scaled sum; before that, a PartialHead
  float* run_max;  // of each run

  // All threads: warp w prepares runs w, w + warps, ... Returns the maximum up to the end of the group.
  __device__ float prepare(const Partials<Rules>& partials, int first_run, int runs, float max_before) const {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
#pragma unroll 4
    for (int run = warp; run < runs; run += warps) {
      const PartialHead own = partials.head_of(first_run + run);
      steps[run * kMergeRun + lane] = make_float4(own.max, own.sum, own.scale, 0.0f);
      const float max = max_of_warp(own.max);
      if (lane == 0) run_max[run] = max;
    }
    __syncthreads();
    const float of_lane = lane < runs ? run_max[lane] : masked_score();
#pragma unroll 4
    for (int run = warp; run < runs; run += warps) {
      float max = fmaxf(max_before, max_of_warp(lane < run ? of_lane : masked_score()));
      float4* step = steps + run * kMergeRun + lane;
      const FoldSteps<Rules> fold({step->x, step->y, step->z}, &max);
      *step = make_float4(fold.a, fold.b, fold.scaled_sum, 0.0f);
    }
    __syncthreads();
    return fmaxf(max_before, max_of_warp(of_lane));
  }
};

struct MergeShape {
  int stages;      // runs in flight at once
  int group_runs;  // runs whose folding is worked out together
};

template <MergeShape kShape>
struct Merge {
  static constexpr int kStages = kShape.stages, kGroupRuns = kShape.group_runs;
  static constexpr int kGroupPartials = kGroupRuns * kMergeRun, kRunElements = kMergeRun * kMergeElements;
  static_assert(kGroupRuns <= kWarp && kGroupRuns % 4 == 0, "a lane has the maximum of a run; memory is in vectors");

  static constexpr int shared_bytes(int warps) {
    return static_cast<int>(kGroupPartials * sizeof(float4) +
                            (kGroupRuns + warps * kStages * kRunElements) * sizeof(float));
  }
};

// Folds the partials of a row that CTAs of decode share, from left to right. A CTA has a head, a warp some elements
// of it, a lane one. Elements come in runs; how to fold them is worked out for a group of runs, by all warps together.
template <typename Rules, typename S>
__global__ __launch_bounds__(kMaxHeadDim) void attention_merge(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(16) float4 merge_memory[];
  float* const run_max = reinterpret_cast<float*>(merge_memory + S::kGroupPartials);
  float* const stages = run_max + S::kGroupRuns;  // [warps][kStages][kMergeRun][kMergeElements]
  const RunGroup<Rules> run_group{merge_memory, run_max};
  let_next_kernel_start();
  const DecodeRowOf<Rules::kBlock> at(p, blockIdx.y);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  wait_for_previous_kernel();
  const int head = blockIdx.x, first_element = warp * kMergeElements;
  const Partials<Rules> partials(p, at, head, first_element);
  const int runs = ceil_div(partials.count, kMergeRun);
  const auto place = [&](int run) { return stages + (warp * S::kStages + run % S::kStages) * S::kRunElements; };
  for (int run = 0; run < S::kStages; ++run) partials.fetch(run, place(run));
  float total = 0.0f, sum = 0.0f, max = masked_score();
  for (int run = 0; run < runs; ++run) {
    if (run % S::kGroupRuns == 0) {
      __syncthreads();
      max = run_group.prepare(partials, run, min(S::kGroupRuns, runs - run), max);
    }
    ptx::cp_async_wait_group<S::kStages - 1>();
    __syncwarp();
    const float4* step = run_group.steps + run % S::kGroupRuns * kMergeRun;
    const float* next = place(run) + lane;
    // A partial beyond the last has the factors 1 and 0: it changes nothing but a -0, which finished() does as well.
#pragma unroll 16
    for (int i = 0; i < kMergeRun; ++i) {
      const float4 fold = step[i];
      sum = fma_rn(sum, fold.x, fold.z);
      total = fma_rn(total, fold.x, __fmul_rn(next[i * kMergeElements], fold.y));
    }
    __syncwarp();
    partials.fetch(run + S::kStages, place(run));
  }
  if (partials.count > 0 && lane < partials.elements)
    p.out[at.row * p.out_stride + head * p.kv.head_dim + first_element + lane] = finished(total, sum);
}

// The same for a single run, whose partials come straight into registers.
template <typename Rules>
__global__ __launch_bounds__(kMaxHeadDim) void attention_merge_few(const __grid_constant__ AttentionParams p) {
  constexpr int kAhead = 16;  // partials in flight
  let_next_kernel_start();
  const DecodeRowOf<Rules::kBlock> at(p, blockIdx.y);
  const int lane = threadIdx.x % kWarp, head = blockIdx.x, first_element = threadIdx.x / kWarp * kMergeElements;
  wait_for_previous_kernel();
  const Partials<Rules> partials(p, at, head, first_element);
  if (partials.count == 0) return;
  float next[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) next[i] = partials.element(i);
  float total = 0.0f, sum = 0.0f, max = masked_score();
  const FoldSteps<Rules> steps(partials.head_of(0), &max);
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

template <typename Rules>
AttentionKernel merge_kernel_of(int head_dim, int key_blocks, bool small) {
  const int warps = ceil_div(head_dim, kMergeElements);
  const auto with = [&]<typename S>() -> AttentionKernel {
    return {.function = reinterpret_cast<const void*>(&attention_merge<Rules, S>),
            .threads = warps * kWarp,
            .shared_bytes = S::shared_bytes(warps)};
  };
  using Small = Merge<MergeShape{.stages = 3, .group_runs = 4}>;
  using Large = Merge<MergeShape{.stages = 6, .group_runs = 16}>;
  static_assert(fits_shared(Small::shared_bytes(kMaxHeadDim / kMergeElements), 1, kMinSmSharedBytes),
                "every supported device must have room for a CTA of the small merge");
  if (key_blocks <= kMergeRun)
    return {.function = reinterpret_cast<const void*>(&attention_merge_few<Rules>),
            .threads = warps * kWarp,
            .shared_bytes = 0};
  return small ? with.template operator()<Small>() : with.template operator()<Large>();
}

}  // namespace reprofuse::cuda::ops
