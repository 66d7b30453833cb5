// Decode of rows with few keys: each key block of a row belongs to one block of a cluster, which sends its partial to
// the block that folds the head. So there is no second kernel, and no partial in global memory.
#pragma once

#include "kernels/cuda/attention/decode_tile.cuh"
#include "kernels/cuda/attention/fold.cuh"
#include "kernels/cuda/ptx/hopper.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::fma1::ops {

template <typename Kv, int kHeads, int kHeadDim>
struct ClusterShape : TileShape<Kv, kHeads, kHeadDim> {
  using Tile = TileShape<Kv, kHeads, kHeadDim>;
  // The last warp sums the weights; its first thread also fetches.
  static constexpr int kLastWarp = Tile::kSumWarps > Tile::kScoreWarps ? Tile::kSumWarps : Tile::kScoreWarps;
  static constexpr int kThreads = (kLastWarp + 1) * kWarp;
};

struct ClusterBarriers {
  std::uint64_t keys, values, partials;
};

// The shared memory of a block; the same in every block of a cluster, so that they find their way in each other's.
template <typename S>
struct ClusterShared {
  typename S::Bits* keys;
  typename S::Bits* values;
  float* query;  // [kHeads][kHeadDim]
  TileWeights<S> weights;
  float* weighted;      // [folded heads][blocks][kHeadDim]: the partials of the heads that the block folds
  float2* max_and_sum;  // [folded heads][blocks]
  ClusterBarriers* barriers;

  __device__ ClusterShared(unsigned char* memory, int blocks) {
    keys = reinterpret_cast<typename S::Bits*>(memory);
    values = keys + S::kTile;
    query = reinterpret_cast<float*>(values + S::kTile);
    weights.weights = query + S::kHeads * S::kHeadDim;
    weighted = weights.weights + S::kHeads * S::kWeightStride;
    max_and_sum = reinterpret_cast<float2*>(weighted + partials(blocks) * S::kHeadDim);
    barriers = reinterpret_cast<ClusterBarriers*>(max_and_sum + partials(blocks));
    weights.max = reinterpret_cast<float*>(barriers + 1);
  }
  static int bytes(int blocks) {
    const int floats = S::kHeads * (S::kHeadDim + S::kWeightStride + 1) + partials(blocks) * (S::kHeadDim + 2);
    return static_cast<int>(2 * S::kTileBytes + floats * sizeof(float) + sizeof(ClusterBarriers));
  }
  // Head h of the set is folded by the block of rank h % blocks.
  __host__ __device__ static int partials(int blocks) { return ceil_div(S::kHeads, blocks) * blocks; }
  __device__ static int partial(int head, int rank, int blocks) { return head / blocks * blocks + rank; }
};

// What a block owns of its cluster's share: the row's key block of its rank, if there is one.
struct ClusterShare : DecodeShare {
  int rank, first_key;

  __device__ explicit ClusterShare(const AttentionParams& p)
      : DecodeShare(p), rank(blockIdx.x), first_key((first_block + rank) * kKeyBlock) {}
};

// One thread: keys and values on their way.
template <typename S>
__device__ inline void fetch_block(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared) {
  const std::int64_t from = p.kv.head_offset(p.kv.page_of(at.sequence, at.first_key), at.heads.kv_head);
  hopper::arrive_expecting(&shared.barriers->keys, S::kTileBytes);
  hopper::copy_bytes(shared.keys, static_cast<const typename S::Bits*>(p.kv.keys) + from, S::kTileBytes,
                     &shared.barriers->keys);
  hopper::arrive_expecting(&shared.barriers->values, S::kTileBytes);
  hopper::copy_bytes(shared.values, static_cast<const typename S::Bits*>(p.kv.values) + from, S::kTileBytes,
                     &shared.barriers->values);
}

// Sums of the weights, to the blocks that fold them. A lane has a head.
template <typename S>
__device__ inline void send_sums_of_weights(const AttentionParams& p, const ClusterShare& at,
                                            const ClusterShared<S>& shared) {
  const int head = threadIdx.x % kWarp;
  if (head >= at.heads.count) return;
  const float2 max_and_sum = make_float2(shared.weights.max[head], shared.weights.sum(head));
  float2* to = shared.max_and_sum + shared.partial(head, at.rank, p.splits);
  hopper::send_to_block(reinterpret_cast<float*>(to), head % p.splits, max_and_sum, &shared.barriers->partials);
}

// Weighted sums of the values, to the blocks that fold them.
template <typename S>
__device__ inline void send_sums_of_values(const AttentionParams& p, const ClusterShare& at,
                                           const ClusterShared<S>& shared, const TileElements<S>& own) {
  float2 weighted[S::kSumHeads];
  own.clear_unseen(at.range, at.first_key, shared.values);
  own.sum_values(shared.values, shared.weights, weighted);
#pragma unroll
  for (int i = 0; i < S::kSumHeads; ++i) {
    const int head = own.first + i;
    if (head >= at.heads.count) break;
    float* to = shared.weighted + shared.partial(head, at.rank, p.splits) * S::kHeadDim + own.d;
    hopper::send_to_block(to, head % p.splits, weighted[i], &shared.barriers->partials);
  }
}

// Folds the partials of the block's heads from left to right and stores the result.
template <typename S>
__device__ inline void fold_heads(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared,
                                  const TileElements<S>& own) {
  const int lane = threadIdx.x % kWarp;
  for (int i = 0; i < S::kSumHeads; ++i) {
    const int head = at.rank + (own.first + i) * p.splits;
    if (head >= at.heads.count) break;
    const int partial = shared.partial(head, 0, p.splits);
    float max = masked_score(), sum = 0.0f;
    const FoldSteps steps(lane < at.key_blocks ? shared.max_and_sum[partial + lane] : make_float2(masked_score(), 0.0f),
                          &max);
    float2 total = {};
    const auto* weighted = reinterpret_cast<const float2*>(shared.weighted + partial * S::kHeadDim + own.d);
#pragma unroll 8
    for (int rank = 0; rank < at.key_blocks; ++rank) {
      const float a = __shfl_sync(~0u, steps.a, rank), b = __shfl_sync(~0u, steps.b, rank);
      const float2 next = weighted[rank * (S::kHeadDim / 2)];
      sum = fma_rn(sum, a, __shfl_sync(~0u, steps.scaled_sum, rank));
      total.x = fma_rn(total.x, a, __fmul_rn(next.x, b));
      total.y = fma_rn(total.y, a, __fmul_rn(next.y, b));
    }
    own.store(p, at, head, total, sum);
  }
}

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
  if (at.has_work()) {
    if (fetches) fetch_block(p, at, shared);
    load_queries<S, S::kThreads>(p, at, shared.query);
    __syncthreads();
    if (warp < S::kScoreWarps) {
      hopper::wait_phase(&shared.barriers->keys, 0);
      weigh_tile<S>(p, at, at.first_key, warp, shared.query, shared.keys, shared.weights);
    }
    __syncthreads();
  }
  const TileElements<S> own(threadIdx.x);
  if (at.has_work() && threadIdx.x < S::kSumThreads) {
    hopper::wait_phase(&shared.barriers->values, 0);
    send_sums_of_values(p, at, shared, own);
  }
  if (at.has_work() && warp == S::kLastWarp) send_sums_of_weights(p, at, shared);
  if (at.key_blocks > 0 && at.rank < at.heads.count && threadIdx.x < S::kSumThreads) {
    hopper::wait_phase_of_cluster(&shared.barriers->partials, 0);
    fold_heads(p, at, shared, own);
  }
#endif
}

template <typename S>
AttentionKernel cluster_kernel_of(int blocks) {
  return {.function = reinterpret_cast<const void*>(&attention_decode_cluster<S>),
          .threads = S::kThreads,
          .shared_bytes = ClusterShared<S>::bytes(blocks)};
}

}  // namespace reprofuse::cuda::fma1::ops
