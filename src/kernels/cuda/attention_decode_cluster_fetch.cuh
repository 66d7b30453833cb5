// Decode by clusters: what a block owns, its shared memory, and how keys and values get there.
#pragma once

#include "kernels/cuda/attention_common.cuh"
#include "kernels/cuda/hopper.cuh"

namespace reprofuse::cuda::fma1::ops {

// kHeads: the most heads of a set. kHeadDim: 64 or 128. What many lanes read alike costs shared memory as much as what
// they read apart, so a thread has two keys, or two elements, for each weight or query that it reads.
template <typename Kv_, int kHeads_, int kHeadDim_>
struct ClusterShape {
  using Kv = Kv_;
  using Bits = typename Kv::Bits;
  static constexpr int kHeads = kHeads_, kHeadDim = kHeadDim_;
  static constexpr int kTile = kKeyBlock * kHeadDim;  // the keys or the values of a block
  static constexpr std::uint32_t kTileBytes = kTile * sizeof(Bits);
  // Scores: a warp has all keys and two heads.
  static constexpr int kScoreWarps = (kHeads + 1) / 2;
  // Sums of values: a thread has two elements and up to four heads.
  static constexpr int kSumHeads = kHeads < 4 ? kHeads : 4;
  static constexpr int kSumThreads = kHeadDim / 2 * (kHeads / kSumHeads);
  static_assert(kHeads % kSumHeads == 0 && kSumThreads % kWarp == 0);
  // Sums of weights: the last warp, whose first thread also fetches.
  static constexpr int kLastWarp = kSumThreads / kWarp > kScoreWarps ? kSumThreads / kWarp : kScoreWarps;
  static constexpr int kThreads = (kLastWarp + 1) * kWarp;
  static constexpr int kWeightStride = kKeyBlock + 4;  // neighbouring heads lie in other banks
};

// What a block owns: a row, a set of heads, and the row's key block of its rank, if there is one.
struct ClusterShare : DecodeRow {
  HeadSet heads;
  int rank, first_key;
  bool has_block;

  __device__ explicit ClusterShare(const AttentionParams& p)
      : DecodeRow(p, blockIdx.z),
        heads(p),
        rank(blockIdx.x),
        first_key((first_block + rank) * kKeyBlock),
        has_block(rank < key_blocks) {}
};

struct ClusterBarriers {
  std::uint64_t keys, values, partials;
};

// The shared memory of a block; the same in every block of a cluster, so that they find their way in each other's.
template <typename S>
struct ClusterShared {
  typename S::Bits* keys;    // [kHeadDim][kKeyBlock]
  typename S::Bits* values;  // [kKeyBlock][kHeadDim]
  float* query;              // [kHeads][kHeadDim]
  float* weights;            // [kHeads][kWeightStride]: exp(score - max)
  float* weighted;           // [folded heads][blocks][kHeadDim]: the partials of the heads that the block folds
  float2* max_and_sum;       // [folded heads][blocks]
  float* max;                // [kHeads]
  ClusterBarriers* barriers;

  __device__ ClusterShared(unsigned char* memory, int blocks) {
    keys = reinterpret_cast<typename S::Bits*>(memory);
    values = keys + S::kTile;
    query = reinterpret_cast<float*>(values + S::kTile);
    weights = query + S::kHeads * S::kHeadDim;
    weighted = weights + S::kHeads * S::kWeightStride;
    max_and_sum = reinterpret_cast<float2*>(weighted + partials(blocks) * S::kHeadDim);
    barriers = reinterpret_cast<ClusterBarriers*>(max_and_sum + partials(blocks));
    max = reinterpret_cast<float*>(barriers + 1);
  }
  static int bytes(int blocks) {
    const int floats = S::kHeads * (S::kHeadDim + S::kWeightStride + 1) + partials(blocks) * (S::kHeadDim + 2);
    return static_cast<int>(2 * S::kTileBytes + floats * sizeof(float) + sizeof(ClusterBarriers));
  }
  // Head h of the set is folded by the block of rank h % blocks.
  __host__ __device__ static int partials(int blocks) { return ceil_div(S::kHeads, blocks) * blocks; }
  __device__ static int partial(int head, int rank, int blocks) { return head / blocks * blocks + rank; }
};

// One thread: keys and values on their way, each in one piece, because a page is a key block.
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

// All threads: all loads are on their way before the first is waited for.
template <typename S>
__device__ inline void load_query(const AttentionParams& p, const ClusterShare& at, const ClusterShared<S>& shared) {
  constexpr int kElements = S::kHeads * S::kHeadDim, kPerThread = ceil_div(kElements, S::kThreads);
  const float* from = p.q + at.row * p.q_stride + at.heads.first * S::kHeadDim;  // the heads of a set lie side by side
  float query[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int element = i * S::kThreads + threadIdx.x;
    query[i] = element < at.heads.count * S::kHeadDim ? from[element] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int element = i * S::kThreads + threadIdx.x;
    if (element < kElements) shared.query[element] = query[i];
  }
}

}  // namespace reprofuse::cuda::fma1::ops
