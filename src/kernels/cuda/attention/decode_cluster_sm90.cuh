// Decode of rows with few keys: each key block of a row belongs to one CTA of a cluster, which sends its partial to the
// CTA that folds the head. So there is no second kernel, and no partial in global memory.
#pragma once

#include "kernels/cuda/attention/decode_tile_sm90.cuh"
#include "kernels/cuda/ptx/pipeline_sm90.cuh"
#include "kernels/cuda/ptx/sm90.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::ops {

template <typename Kv, HeadShape kShape>
struct DecodeCluster : DecodeTile<Kv, kShape> {
  using Tile = DecodeTile<Kv, kShape>;
  // The last warp sums the probabilities; its first thread also issues the TMA loads.
  static constexpr int kLastWarp = Tile::kSumWarps > Tile::kScoreWarps ? Tile::kSumWarps : Tile::kScoreWarps;
  static constexpr int kThreads = (kLastWarp + 1) * kWarp;
  // Two scores of two heads with their queries; or sums of two elements with four values and four probabilities.
  static_assert(
      4 * Tile::kSumHeads + 8 + 4 + 40 <= registers_per_thread(kThreads, kClusterCtasPerSm),
      "a thread's sums and some 40 registers of addresses must fit what kClusterCtasPerSm CTAs leave a thread");
};

struct ClusterBarriers {
  std::uint64_t keys, values, partials;
};

// The shared memory of a CTA; the same in every CTA of a cluster, so that they find their way in each other's.
template <typename S>
struct ClusterShared {
  typename S::Bits* keys;
  typename S::Bits* values;
  float* query;  // [kHeads][kHeadDim]
  Probabilities<S> probabilities;
  float* weighted;      // [folded heads][ctas][kHeadDim]: the partials of the heads that the CTA folds
  float2* max_and_sum;  // [folded heads][ctas]
  ClusterBarriers* barriers;

  __device__ ClusterShared(unsigned char* memory, int ctas) {
    keys = reinterpret_cast<typename S::Bits*>(memory);
    values = keys + S::kTile;
    query = reinterpret_cast<float*>(values + S::kTile);
    probabilities.values = query + S::kHeads * S::kHeadDim;
    weighted = probabilities.values + S::kHeads * S::kProbabilityStride;
    max_and_sum = reinterpret_cast<float2*>(weighted + partials(ctas) * S::kHeadDim);
    barriers = reinterpret_cast<ClusterBarriers*>(max_and_sum + partials(ctas));
    probabilities.max = reinterpret_cast<float*>(barriers + 1);
  }
  static constexpr int bytes(int ctas) {
    const int floats = S::kHeads * (S::kHeadDim + S::kProbabilityStride + 1) + partials(ctas) * (S::kHeadDim + 2);
    return static_cast<int>(2 * S::kTileBytes + floats * sizeof(float) + sizeof(ClusterBarriers));
  }
  // Head h of the set is folded by the CTA of rank h % ctas.
  __host__ __device__ static constexpr int partials(int ctas) { return ceil_div(S::kHeads, ctas) * ctas; }
  __device__ static int partial(int head, int rank, int ctas) { return head / ctas * ctas + rank; }
};

// What a CTA owns of its cluster's work: the row's key block of its rank, if there is one.
struct ClusterWork : DecodeWork {
  int rank, first_key;

  __device__ explicit ClusterWork(const AttentionParams& p)
      : DecodeWork(p), rank(blockIdx.x), first_key((first_block + rank) * kKeyBlock) {}
};

// One thread: starts the loads of keys and values.
template <typename S>
__device__ inline void load_key_block(const AttentionParams& p, const ClusterWork& at, const ClusterShared<S>& shared) {
  const std::int64_t from = p.kv.head_offset(p.kv.page_of(at.sequence, at.first_key), at.heads.kv_head);
  ptx::mbarrier_arrive_expect_tx(&shared.barriers->keys, S::kTileBytes);
  ptx::tma_load_bulk(shared.keys, static_cast<const typename S::Bits*>(p.kv.keys) + from, S::kTileBytes,
                     &shared.barriers->keys);
  ptx::mbarrier_arrive_expect_tx(&shared.barriers->values, S::kTileBytes);
  ptx::tma_load_bulk(shared.values, static_cast<const typename S::Bits*>(p.kv.values) + from, S::kTileBytes,
                     &shared.barriers->values);
}

// Sums of the probabilities, to the CTAs that fold them. A lane has a head.
template <typename S>
__device__ inline void send_sums(const AttentionParams& p, const ClusterWork& at, const ClusterShared<S>& shared) {
  const int head = threadIdx.x % kWarp;
  if (head >= at.heads.count) return;
  const float2 max_and_sum = make_float2(shared.probabilities.max[head], shared.probabilities.sum(head));
  float2* to = shared.max_and_sum + shared.partial(head, at.rank, p.splits);
  ptx::st_async(reinterpret_cast<float*>(to), head % p.splits, max_and_sum, &shared.barriers->partials);
}

// Weighted sums of the values, to the CTAs that fold them.
template <typename S>
__device__ inline void send_weighted_sums(const AttentionParams& p, const ClusterWork& at,
                                          const ClusterShared<S>& shared, const TileElements<S>& own) {
  float2 weighted[S::kSumHeads];
  own.clear_unseen(at.range, at.first_key, shared.values);
  own.sum_values(shared.values, shared.probabilities, weighted);
#pragma unroll
  for (int i = 0; i < S::kSumHeads; ++i) {
    const int head = own.first + i;
    if (head >= at.heads.count) break;
    float* to = shared.weighted + shared.partial(head, at.rank, p.splits) * S::kHeadDim + own.d;
    ptx::st_async(to, head % p.splits, weighted[i], &shared.barriers->partials);
  }
}

// Folds the partials of the CTA's heads from left to right and stores the result.
template <typename S>
__device__ inline void fold_heads(const AttentionParams& p, const ClusterWork& at, const ClusterShared<S>& shared,
                                  const TileElements<S>& own) {
  const int lane = threadIdx.x % kWarp;
  for (int i = 0; i < S::kSumHeads; ++i) {
    const int head = at.rank + (own.first + i) * p.splits;
    if (head >= at.heads.count) break;
    const int partial = shared.partial(head, 0, p.splits);
    float max = masked_score(), sum = 0.0f;
    const float2 own_head =
        lane < at.key_blocks ? shared.max_and_sum[partial + lane] : make_float2(masked_score(), 0.0f);
    const FoldSteps<FoldFma1> steps({own_head.x, own_head.y, 0.0f}, &max);
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

// One thread: the barriers of a CTA, and how many bytes of partials will come.
template <typename S>
__device__ inline void prepare_barriers(const AttentionParams& p, const ClusterWork& at,
                                        const ClusterShared<S>& shared) {
  ptx::mbarrier_init(&shared.barriers->keys, 1);
  ptx::mbarrier_init(&shared.barriers->values, 1);
  ptx::mbarrier_init(&shared.barriers->partials, 1);
  ptx::fence_mbarrier_init();
  const int folded_heads = max(0, at.heads.count - at.rank + p.splits - 1) / p.splits;
  constexpr int kPartialBytes = S::kHeadDim * sizeof(float) + sizeof(float2);
  ptx::mbarrier_arrive_expect_tx(&shared.barriers->partials, folded_heads * at.key_blocks * kPartialBytes);
}

// Bits: equal reference::attention.
template <typename S>
__global__ __launch_bounds__(S::kThreads, kClusterCtasPerSm) void attention_decode_cluster(
    const __grid_constant__ AttentionParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  const ClusterWork at(p);
  const ClusterShared<S> shared(memory, p.splits);
  const int warp = threadIdx.x / kWarp;
  const bool issues_loads = threadIdx.x == S::kLastWarp * kWarp;

  // Initialize barriers
  if (issues_loads) prepare_barriers(p, at, shared);
  ptx::cluster_sync();  // all CTAs of the cluster run, and their barriers are ready for partials
  wait_for_previous_kernel();

  // Scores and probabilities of the CTA's key block
  if (at.has_work()) {
    if (issues_loads) load_key_block(p, at, shared);
    load_queries<S, S::kThreads>(p, at, shared.query);
    __syncthreads();
    if (warp < S::kScoreWarps) {
      ptx::mbarrier_wait(&shared.barriers->keys, 0);
      score_tile<S>(p, at, at.first_key, warp, shared.query, shared.keys, shared.probabilities);
    }
    __syncthreads();
  }

  // Weighted sums, sent to the CTAs that fold them
  const TileElements<S> own(threadIdx.x);
  if (at.has_work() && threadIdx.x < S::kSumThreads) {
    ptx::mbarrier_wait(&shared.barriers->values, 0);
    send_weighted_sums(p, at, shared, own);
  }
  if (at.has_work() && warp == S::kLastWarp) send_sums(p, at, shared);

  // Epilogue: fold the partials of all CTAs
  if (at.key_blocks > 0 && at.rank < at.heads.count && threadIdx.x < S::kSumThreads) {
    ptx::mbarrier_wait<ptx::Scope::kCluster>(&shared.barriers->partials, 0);
    fold_heads(p, at, shared, own);
  }
#endif
}

template <typename S>
AttentionKernel cluster_kernel_of(int ctas) {
  static_assert(fits_shared(ClusterShared<S>::bytes(kMaxClusterCtas), 1, kSmSharedBytesSm90),
                "an SM must hold a CTA of the largest cluster");
  return {.function = reinterpret_cast<const void*>(&attention_decode_cluster<S>),
          .threads = S::kThreads,
          .shared_bytes = ClusterShared<S>::bytes(ctas)};
}

template <typename Kv>
AttentionKernel cluster_kernel(int head_dim, int set_heads, int ctas) {
  return kernel_of_shape<DecodeCluster, Kv>(head_dim, set_heads,
                                            [&]<typename S>() { return cluster_kernel_of<S>(ctas); });
}

}  // namespace reprofuse::cuda::ops
