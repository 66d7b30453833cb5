// Decode of many rows or many keys: a block owns one row and one set of heads, and some of the row's key blocks, whose
// tiles the copy engine streams through a ring in shared memory. Some warps weigh the keys of one block while others
// sum the values of the block before it.
#pragma once

#include "kernels/cuda/attention/decode_tile.cuh"
#include "kernels/cuda/ptx/hopper.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::fma1::ops {

// Warps that sum values, warps that weigh keys, and one that fetches and sums weights.
template <typename Kv, int kHeads, int kHeadDim>
struct StreamShape : TileShape<Kv, kHeads, kHeadDim> {
  using Tile = TileShape<Kv, kHeads, kHeadDim>;
  static constexpr int kFirstScoreWarp = Tile::kSumWarps, kLastWarp = kFirstScoreWarp + Tile::kScoreWarps;
  static constexpr int kThreads = (kLastWarp + 1) * kWarp;
};

// The shared memory of a block.
template <typename S>
struct StreamShared {
  typename S::Bits* tiles;  // [p.stages][kTile]
  float* query;             // [kHeads][kHeadDim]
  float* weights;           // [2][kHeads][kWeightStride]
  std::uint64_t* full;      // [p.stages]: the tile has come
  std::uint64_t* weighed;   // [2]: the weights are there, and nobody needs the keys any more
  std::uint64_t* summed;    // [2]: nobody needs the weights and the values any more
  float* max;               // [2][kHeads]
  float* sums;              // [kHeads]: of a row's weights

  __device__ StreamShared(unsigned char* memory, int stages) {
    tiles = reinterpret_cast<typename S::Bits*>(memory);
    query = reinterpret_cast<float*>(tiles + stages * S::kTile);
    weights = query + S::kHeads * S::kHeadDim;
    full = reinterpret_cast<std::uint64_t*>(weights + 2 * S::kHeads * S::kWeightStride);
    weighed = full + stages;
    summed = weighed + 2;
    max = reinterpret_cast<float*>(summed + 2);
    sums = max + 2 * S::kHeads;
  }
  static int bytes(int stages) {
    const int floats = S::kHeads * (S::kHeadDim + 2 * S::kWeightStride + 3);
    return stages * static_cast<int>(S::kTileBytes + sizeof(std::uint64_t)) +
           static_cast<int>(floats * sizeof(float) + 4 * sizeof(std::uint64_t));
  }
  // Those of the block's `index`-th key block.
  __device__ TileWeights<S> weights_of(int index) const {
    return {weights + index % 2 * S::kHeads * S::kWeightStride, max + index % 2 * S::kHeads};
  }
  __device__ void init_barriers(int stages) const {
    for (int i = 0; i < stages; ++i) hopper::init_barrier(full + i, 1);
    for (int i = 0; i < 2; ++i) {
      hopper::init_barrier(weighed + i, S::kScoreWarps * kWarp);
      hopper::init_barrier(summed + i, (S::kSumWarps + 1) * kWarp);
    }
    hopper::fence_barrier_init();
  }
};

// A tile's place in the ring; the parity changes with each round.
struct RingPlace {
  int place = 0;
  std::uint32_t parity = 0;

  __device__ void advance(int stages, int tiles) {
    place += tiles;
    if (place < stages) return;
    place -= stages;
    parity ^= 1;
  }
};

// The key blocks of a row that a block has.
struct StreamShare : DecodeShare {
  int count;

  __device__ explicit StreamShare(const AttentionParams& p)
      : DecodeShare(p), count(max(0, ceil_div(key_blocks - static_cast<int>(blockIdx.x), p.splits))) {}
  // Of the row's own, counted from the first that it sees.
  __device__ int key_block(const AttentionParams& p, int index) const { return blockIdx.x + index * p.splits; }
  __device__ int first_key(const AttentionParams& p, int index) const {
    return (first_block + key_block(p, index)) * kKeyBlock;
  }
  // Where a head of the set has its partial of a key block.
  __device__ std::int64_t partial_of(const AttentionParams& p, int head, int index) const {
    return partial(p, heads.first + head, key_block(p, index));
  }
};

// One thread: tile 2 i is the keys of the block's i-th key block, tile 2 i + 1 its values.
template <typename S>
__device__ inline void fetch_tile(const AttentionParams& p, const StreamShare& at, const StreamShared<S>& shared,
                                  int tile, int place) {
  if (tile >= 2 * at.count) return;
  const int page = p.kv.page_of(at.sequence, at.first_key(p, tile / 2));
  const auto* cache = static_cast<const typename S::Bits*>(tile % 2 == 0 ? p.kv.keys : p.kv.values);
  hopper::arrive_expecting(shared.full + place, S::kTileBytes);
  hopper::copy_bytes(shared.tiles + place * S::kTile, cache + p.kv.head_offset(page, at.heads.kv_head), S::kTileBytes,
                     shared.full + place);
}

// A warp that weighs keys.
template <typename S>
__device__ inline void weigh_blocks(const AttentionParams& p, const StreamShare& at, const StreamShared<S>& shared,
                                    int warp) {
  RingPlace keys;
  for (int i = 0; i < at.count; ++i, keys.advance(p.stages, 2)) {
    if (i >= 2) hopper::wait_phase(shared.summed + i % 2, (i / 2 - 1) & 1);
    hopper::wait_phase(shared.full + keys.place, keys.parity);
    weigh_tile<S>(p, at, at.first_key(p, i), warp, shared.query, shared.tiles + keys.place * S::kTile,
                  shared.weights_of(i));
    hopper::arrive(shared.weighed + i % 2);
  }
}

// What a thread that sums values has of a row: partials folded from left to right, without the sums of weights.
template <typename S>
struct StreamTotals {
  TileElements<S> own;
  float2 weighted[S::kSumHeads];
  float max[S::kSumHeads];

  __device__ explicit StreamTotals(int thread) : own(thread) {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      weighted[i] = make_float2(0.0f, 0.0f);
      max[i] = masked_score();
    }
  }

  __device__ void fold(const float2 (&next)[S::kSumHeads], const float (&next_max)[S::kSumHeads]) {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      const Rescale rescale(max[i], next_max[i]);
      max[i] = rescale.max;
      weighted[i].x = rescale.merged(weighted[i].x, next[i].x);
      weighted[i].y = rescale.merged(weighted[i].y, next[i].y);
    }
  }

  __device__ void store(const AttentionParams& p, const StreamShare& at, const float* sums) const {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i)
      if (own.first + i < at.heads.count) own.store(p, at, own.first + i, weighted[i], sums[own.first + i]);
  }
};

template <typename S>
__device__ inline void store_partials(const AttentionParams& p, const StreamShare& at, int index,
                                      const TileElements<S>& own, const float2 (&weighted)[S::kSumHeads]) {
#pragma unroll
  for (int i = 0; i < S::kSumHeads; ++i) {
    if (own.first + i >= at.heads.count) break;
    float* to = p.weighted + at.partial_of(p, own.first + i, index) * S::kHeadDim + own.d;
    *reinterpret_cast<float2*>(to) = weighted[i];
  }
}

// A warp that sums values.
template <typename S>
__device__ inline void sum_blocks(const AttentionParams& p, const StreamShare& at, const StreamShared<S>& shared,
                                  StreamTotals<S>& totals) {
  const TileElements<S>& own = totals.own;
  RingPlace values;
  values.advance(p.stages, 1);
  for (int i = 0; i < at.count; ++i, values.advance(p.stages, 2)) {
    typename S::Bits* tile = shared.tiles + values.place * S::kTile;
    const TileWeights<S> weights = shared.weights_of(i);
    const int first_key = at.first_key(p, i);
    float2 next[S::kSumHeads];
    float next_max[S::kSumHeads];
    hopper::wait_phase(shared.full + values.place, values.parity);
    own.clear_unseen(at.range, first_key, tile);
    hopper::wait_phase(shared.weighed + i % 2, i / 2 & 1);
    own.sum_values(tile, weights, next);
#pragma unroll
    for (int j = 0; j < S::kSumHeads; ++j) next_max[j] = weights.max[own.first + j];
    if (at.range.begin > first_key) hopper::fence_before_copies();  // the last tile is cleared too, but none follows
    hopper::arrive(shared.summed + i % 2);
    if (p.splits == 1)
      totals.fold(next, next_max);
    else
      store_partials<S>(p, at, i, own, next);
  }
}

// The warp that refills the ring, and sums weights: a lane has a head.
template <typename S>
__device__ inline void fetch_blocks(const AttentionParams& p, const StreamShare& at, const StreamShared<S>& shared) {
  const int head = threadIdx.x % kWarp;
  const bool fetches = head == 0;
  RingPlace ring;
  float max = masked_score(), sum = 0.0f;
  for (int i = 0; i < at.count; ++i) {
    hopper::wait_phase(shared.weighed + i % 2, i / 2 & 1);
    if (fetches) fetch_tile(p, at, shared, 2 * i + p.stages, ring.place);
    ring.advance(p.stages, 1);
    if (head < at.heads.count) {
      const TileWeights<S> weights = shared.weights_of(i);
      const float next_max = weights.max[head], next_sum = weights.sum(head);
      if (p.splits == 1) {
        const Rescale rescale(max, next_max);
        max = rescale.max;
        sum = rescale.merged(sum, next_sum);
      } else {
        p.max_and_sum[at.partial_of(p, head, i)] = make_float2(next_max, next_sum);
      }
    }
    hopper::arrive(shared.summed + i % 2);
    hopper::wait_phase(shared.summed + i % 2, i / 2 & 1);
    if (fetches) fetch_tile(p, at, shared, 2 * i + 1 + p.stages, ring.place);
    ring.advance(p.stages, 1);
  }
  if (head < at.heads.count) shared.sums[head] = sum;
}

// Bits: equal reference::attention, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(S::kThreads, kStreamBlocksAtOnce) void attention_decode_stream(
    const __grid_constant__ AttentionParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  const StreamShare at(p);
  const StreamShared<S> shared(memory, p.stages);
  const int warp = threadIdx.x / kWarp;
  const bool fetches = threadIdx.x == S::kLastWarp * kWarp;
  if (fetches) shared.init_barriers(p.stages);
  wait_for_previous_kernel();
  if (at.count == 0) return;
  for (int tile = 0; fetches && tile < p.stages; ++tile) fetch_tile(p, at, shared, tile, tile);
  load_queries<S, S::kThreads>(p, at, shared.query);
  __syncthreads();
  StreamTotals<S> totals(threadIdx.x);
  if (warp == S::kLastWarp)
    fetch_blocks(p, at, shared);
  else if (warp >= S::kFirstScoreWarp)
    weigh_blocks(p, at, shared, warp - S::kFirstScoreWarp);
  else
    sum_blocks(p, at, shared, totals);
  if (p.splits > 1) return;
  __syncthreads();
  if (warp < S::kSumWarps) totals.store(p, at, shared.sums);
#endif
}

template <typename S>
AttentionKernel stream_kernel_of(int stages) {
  return {.function = reinterpret_cast<const void*>(&attention_decode_stream<S>),
          .threads = S::kThreads,
          .shared_bytes = StreamShared<S>::bytes(stages)};
}

}  // namespace reprofuse::cuda::fma1::ops
