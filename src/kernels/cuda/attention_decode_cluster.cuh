// Decode of rows with few keys, on devices with clusters: each key block of a row belongs to one block of a cluster,
// which the copy engine brings it whole, and which sends its partial to the block that folds the head. So there is no
// second kernel, and no partial in global memory.
#pragma once

#include "kernels/cuda/attention_decode_cluster_fetch.cuh"
#include "kernels/cuda/attention_fold.cuh"
#include "kernels/cuda/launch.cuh"

namespace reprofuse::cuda::fma1::ops {

// The largest of a warp's floats, none a NaN: as integers that are ordered alike, for which there is an instruction.
__device__ inline float max_of_warp(float value) {
  const auto flip = [](int bits) { return bits >= 0 ? bits : bits ^ 0x7fffffff; };
  return __int_as_float(flip(__reduce_max_sync(~0u, flip(__float_as_int(value)))));
}

// Scores of all keys, one chain over d each, become weights. A warp has two heads, a lane two keys; an odd last head is
// computed twice.
template <typename S>
__device__ inline void weigh_keys(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared) {
  const int key = threadIdx.x % kWarp * 2, first_head = threadIdx.x / kWarp * 2;
  const int heads[2] = {first_head, min(first_head + 1, S::kHeads - 1)};
  float score[2][2] = {};  // [head][key]
#pragma unroll 8
  for (int d = 0; d < S::kHeadDim; d += 4) {
    const float4 q0 = *reinterpret_cast<const float4*>(shared.query + heads[0] * S::kHeadDim + d);
    const float4 q1 = *reinterpret_cast<const float4*>(shared.query + heads[1] * S::kHeadDim + d);
    const float q[2][4] = {{q0.x, q0.y, q0.z, q0.w}, {q1.x, q1.y, q1.z, q1.w}};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 k = widen2<typename S::Kv>(shared.keys + (d + e) * kKeyBlock + key);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        score[i][0] = fma_rn(q[i][e], k.x, score[i][0]);
        score[i][1] = fma_rn(q[i][e], k.y, score[i][1]);
      }
    }
  }
  const bool seen[2] = {at.range.has(at.first_key + key), at.range.has(at.first_key + key + 1)};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int head = heads[i];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      score[i][j] = __fmul_rn(score[i][j], p.scale);
      if (seen[j] && head < at.heads.count)
        record_if_not_finite(p.record, p.op, at.row, at.heads.first + head, score[i][j]);
      if (!seen[j]) score[i][j] = masked_score();
    }
    const float max = max_of_warp(fmaxf(score[i][0], score[i][1]));
    float2 weights;
    weights.x = seen[0] ? exp_nonpositive_f32(__fsub_rn(score[i][0], max)) : 0.0f;
    weights.y = seen[1] ? exp_nonpositive_f32(__fsub_rn(score[i][1], max)) : 0.0f;
    *reinterpret_cast<float2*>(shared.weights + head * S::kWeightStride + key) = weights;
    if (key == 0) shared.max[head] = max;
  }
}

// Sums of the weights in ascending key order, to the blocks that fold them. A lane has a head.
template <typename S>
__device__ inline void sum_weights(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared) {
  const int head = threadIdx.x % kWarp;
  if (head >= at.heads.count) return;
  float sum = 0.0f;
#pragma unroll
  for (int key = 0; key < kKeyBlock; key += 4) {
    const float4 w = *reinterpret_cast<const float4*>(shared.weights + head * S::kWeightStride + key);
    sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, w.x), w.y), w.z), w.w);
  }
  float2* to = shared.max_and_sum + shared.partial(head, at.rank, p.splits);
  hopper::send_to_block(reinterpret_cast<float*>(to), head % p.splits, make_float2(shared.max[head], sum),
                        &shared.barriers->partials);
}

// What a thread has of the values: two elements of up to four heads.
template <typename S>
struct ClusterElements {
  int d, first;  // the first element, and the first head, in the set or of those that the block folds

  __device__ ClusterElements()
      : d(threadIdx.x % (S::kHeadDim / 2) * 2), first(threadIdx.x / (S::kHeadDim / 2) * S::kSumHeads) {}

  // Weighted sums of the values, chains in ascending key order, to the blocks that fold them.
  __device__ void sum_values(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared) const {
    clear_unseen(at, shared.values);
    float2 weighted[S::kSumHeads] = {};
#pragma unroll 8
    for (int key = 0; key < kKeyBlock; key += 4) {
      float2 v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = widen2<typename S::Kv>(shared.values + (key + e) * S::kHeadDim + d);
#pragma unroll
      for (int i = 0; i < S::kSumHeads; ++i) {
        const float4 w4 = *reinterpret_cast<const float4*>(shared.weights + (first + i) * S::kWeightStride + key);
        const float w[4] = {w4.x, w4.y, w4.z, w4.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          weighted[i].x = fma_rn(w[e], v[e].x, weighted[i].x);
          weighted[i].y = fma_rn(w[e], v[e].y, weighted[i].y);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      const int head = first + i;
      if (head >= at.heads.count) break;
      float* to = shared.weighted + shared.partial(head, at.rank, p.splits) * S::kHeadDim + d;
      hopper::send_to_block(to, head % p.splits, weighted[i], &shared.barriers->partials);
    }
  }

  // Folds the partials from left to right and stores the result.
  __device__ void fold(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared) const {
    const int lane = threadIdx.x % kWarp;
    for (int i = 0; i < S::kSumHeads; ++i) {
      const int head = at.rank + (first + i) * p.splits;
      if (head >= at.heads.count) break;
      const int partial = shared.partial(head, 0, p.splits);
      float max = masked_score(), sum = 0.0f;
      const FoldSteps steps(
          lane < at.key_blocks ? shared.max_and_sum[partial + lane] : make_float2(masked_score(), 0.0f), &max);
      float2 total = {};
      const auto* weighted = reinterpret_cast<const float2*>(shared.weighted + partial * S::kHeadDim + d);
#pragma unroll 8
      for (int rank = 0; rank < at.key_blocks; ++rank) {
        const float a = __shfl_sync(~0u, steps.a, rank), b = __shfl_sync(~0u, steps.b, rank);
        const float2 next = weighted[rank * (S::kHeadDim / 2)];
        sum = fma_rn(sum, a, __shfl_sync(~0u, steps.scaled_sum, rank));
        total.x = fma_rn(total.x, a, __fmul_rn(next.x, b));
        total.y = fma_rn(total.y, a, __fmul_rn(next.y, b));
      }
      float* out = p.out + at.row * p.out_stride + (at.heads.first + head) * S::kHeadDim + d;
      out[0] = finished(total.x, sum);  // rows of the result may start anywhere: no vectors
      out[1] = finished(total.y, sum);
    }
  }

 private:
  // Values that the row does not see become 0: their weight is 0, and 0 times what lies there might be a NaN.
  __device__ void clear_unseen(const ClusterShare& at, typename S::Bits* values) const {
    const auto clear = [&](int key) { values[key * S::kHeadDim + d] = values[key * S::kHeadDim + d + 1] = 0; };
    for (int key = 0; key < at.range.begin - at.first_key; ++key) clear(key);
    for (int key = at.range.end - at.first_key; key < kKeyBlock; ++key) clear(key);
  }
};

// One thread: the barriers of a block, and how many bytes of partials will come.
template <typename S>
__device__ inline void prepare_barriers(const AttentionParams& p, const ClusterShare& at,
                                        const ClusterShared<S>& shared) {
  hopper::init_barrier(&shared.barriers->keys, 1);
  hopper::init_barrier(&shared.barriers->values, 1);
  hopper::init_barrier(&shared.barriers->partials, 1);
  hopper::fence_barrier_init();
  const int folded_heads = max(0, at.heads.count - at.rank + p.splits - 1) / p.splits;
  constexpr int kPartialBytes = S::kHeadDim * sizeof(float) + sizeof(float2);
  hopper::arrive_expecting(&shared.barriers->partials, folded_heads * at.key_blocks * kPartialBytes);
}

// Bits: equal reference::attention.
template <typename S>
__global__ __launch_bounds__(S::kThreads, kClusterBlocksAtOnce) void attention_decode_cluster(
    const __grid_constant__ AttentionParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  const ClusterShare at(p);
  const ClusterShared<S> shared(memory, p.splits);
  const int warp = threadIdx.x / kWarp;
  const bool fetches = threadIdx.x == S::kLastWarp * kWarp;
  if (fetches) prepare_barriers(p, at, shared);
  hopper::sync_cluster();  // all blocks of the cluster run, and their barriers are ready for partials
  wait_for_previous_kernel();
  if (at.has_block) {
    if (fetches) fetch_block(p, at, shared);
    load_query(p, at, shared);
    __syncthreads();
    if (warp < S::kScoreWarps) {
      hopper::wait_phase(&shared.barriers->keys, 0);
      weigh_keys(p, at, shared);
    }
    __syncthreads();
  }
  const ClusterElements<S> elements;
  if (at.has_block && threadIdx.x < S::kSumThreads) {
    hopper::wait_phase(&shared.barriers->values, 0);
    elements.sum_values(p, at, shared);
  }
  if (at.has_block && warp == S::kLastWarp) sum_weights(p, at, shared);
  if (at.key_blocks > 0 && at.rank < at.heads.count && threadIdx.x < S::kSumThreads) {
    hopper::wait_phase_of_cluster(&shared.barriers->partials, 0);
    elements.fold(p, at, shared);
  }
#endif
}

template <typename S>
AttentionKernel cluster_kernel_of(int blocks) {
  return {.function = reinterpret_cast<const void*>(&attention_decode_cluster<S>),
          .threads = S::kThreads,
          .shared_bytes = ClusterShared<S>::bytes(blocks)};
}

template <typename Kv, int kHeads>
AttentionKernel cluster_kernel_for_dim(int head_dim, int blocks) {
  return head_dim == 128 ? cluster_kernel_of<ClusterShape<Kv, kHeads, 128>>(blocks)
                         : cluster_kernel_of<ClusterShape<Kv, kHeads, 64>>(blocks);
}

template <typename Kv>
AttentionKernel cluster_kernel(int head_dim, int set_heads, int blocks) {
  if (set_heads <= 2) return cluster_kernel_for_dim<Kv, 2>(head_dim, blocks);
  if (set_heads == 3) return cluster_kernel_for_dim<Kv, 3>(head_dim, blocks);
  if (set_heads == 4) return cluster_kernel_for_dim<Kv, 4>(head_dim, blocks);
  return cluster_kernel_for_dim<Kv, kMostSetHeads>(head_dim, blocks);
}

}  // namespace reprofuse::cuda::fma1::ops
