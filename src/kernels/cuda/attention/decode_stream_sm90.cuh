// Decode of many rows or many keys, warp-specialised: a CTA owns one row and one set of heads, and some of the row's
// key blocks, whose tiles the TMA streams through stages of shared memory. Some warps score the keys of one key block
// while others sum the values of the one before it.
#pragma once

#include "kernels/cuda/attention/decode_tile_sm90.cuh"
#include "kernels/cuda/ptx/pipeline_sm90.cuh"
#include "kernels/cuda/ptx/sm90.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::ops {

// Warps that sum values, warps that score keys, and one that issues TMA loads and sums probabilities.
template <typename Kv, HeadShape kShape>
struct DecodeStream : DecodeTile<Kv, kShape> {
  using Tile = DecodeTile<Kv, kShape>;
  static constexpr int kFirstScoreWarp = Tile::kSumWarps, kLastWarp = kFirstScoreWarp + Tile::kScoreWarps;
  static constexpr int kThreads = (kLastWarp + 1) * kWarp;
  // Totals and the sums of a key block, each with its maximum; four values of two elements; four probabilities.
  static_assert(
      2 * 3 * Tile::kSumHeads + 8 + 4 + 40 <= registers_per_thread(kThreads, kStreamCtasPerSm),
      "a thread's sums and some 40 registers of addresses must fit what kStreamCtasPerSm CTAs leave a thread");
};

inline constexpr int kProbabilityStages = 2;

// The shared memory of a CTA. The TMA fills stages with tiles; score warps are the producers of a pipeline of
// probabilities. Tiles need no empty barriers: one of keys is free when the probabilities of its key block are full,
// one of values when they are empty again.
template <typename S>
struct DecodeStreamShared {
  typename S::Bits* tiles;          // [p.stages][kTile]
  float* query;                     // [kHeads][kHeadDim]
  float* probabilities;             // [kProbabilityStages][kHeads][kProbabilityStride]
  ptx::FullBarriers tile_barriers;  // of p.stages
  ptx::Pipeline pipeline;           // of the probabilities
  float* max;                       // [kProbabilityStages][kHeads]
  float* sums;                      // [kHeads]: of a row's probabilities

  __device__ DecodeStreamShared(unsigned char* memory, int stages) {
    tiles = reinterpret_cast<typename S::Bits*>(memory);
    query = reinterpret_cast<float*>(tiles + stages * S::kTile);
    probabilities = query + S::kHeads * S::kHeadDim;
    auto* barriers =
        reinterpret_cast<std::uint64_t*>(probabilities + kProbabilityStages * S::kHeads * S::kProbabilityStride);
    tile_barriers = {barriers, stages};
    pipeline = {barriers + stages, kProbabilityStages};
    max = reinterpret_cast<float*>(pipeline.barriers + 2 * kProbabilityStages);
    sums = max + kProbabilityStages * S::kHeads;
  }
  static constexpr int bytes(int stages) {
    const int floats = S::kHeads * (S::kHeadDim + kProbabilityStages * (S::kProbabilityStride + 1) + 1);
    return stages * static_cast<int>(S::kTileBytes) + static_cast<int>(floats * sizeof(float)) +
           ptx::FullBarriers::barrier_bytes(stages) + ptx::Pipeline::barrier_bytes(kProbabilityStages);
  }
  // The probabilities of the CTA's `index`-th key block.
  __device__ Probabilities<S> probabilities_of(int index) const {
    const int stage = index % kProbabilityStages;
    return {probabilities + stage * S::kHeads * S::kProbabilityStride, max + stage * S::kHeads};
  }
  __device__ void init_barriers() const {
    tile_barriers.init(1);
    pipeline.init(S::kScoreWarps * kWarp, (S::kSumWarps + 1) * kWarp);
    ptx::fence_mbarrier_init();
  }
};

// The key blocks of a row that a CTA has.
struct DecodeStreamWork : DecodeWork {
  int count;

  __device__ explicit DecodeStreamWork(const AttentionParams& p)
      : DecodeWork(p), count(max(0, ceil_div(key_blocks - static_cast<int>(blockIdx.x), p.splits))) {}
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

// One thread: tile 2 i is the keys of the CTA's i-th key block, tile 2 i + 1 its values.
template <typename S>
__device__ inline void load_tile(const AttentionParams& p, const DecodeStreamWork& at,
                                 const DecodeStreamShared<S>& shared, int tile, int stage) {
  if (tile >= 2 * at.count) return;
  const int page = p.kv.page_of(at.sequence, at.first_key(p, tile / 2));
  const auto* cache = static_cast<const typename S::Bits*>(tile % 2 == 0 ? p.kv.keys : p.kv.values);
  std::uint64_t* const full = shared.tile_barriers.full_barrier(stage);
  ptx::mbarrier_arrive_expect_tx(full, S::kTileBytes);
  ptx::tma_load_bulk(shared.tiles + stage * S::kTile, cache + p.kv.head_offset(page, at.heads.kv_head), S::kTileBytes,
                     full);
}

// A score warp: the producer of probabilities.
template <typename S>
__device__ inline void score_key_blocks(const AttentionParams& p, const DecodeStreamWork& at,
                                        const DecodeStreamShared<S>& shared, int warp) {
  ptx::PipelineState keys;
  for (int i = 0; i < at.count; ++i, keys.advance(p.stages, 2)) {
    const auto made = ptx::PipelineState::of_producer(i, kProbabilityStages);
    if (i >= kProbabilityStages) shared.pipeline.wait_empty(made);
    shared.tile_barriers.wait_full(keys);
    score_tile<S>(p, at, at.first_key(p, i), warp, shared.query, shared.tiles + keys.stage * S::kTile,
                  shared.probabilities_of(i));
    shared.pipeline.commit(made.stage);
  }
}

// What a thread that sums values has of a row: partials folded from left to right, without the sums of probabilities.
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

  __device__ void store(const AttentionParams& p, const DecodeStreamWork& at, const float* sums) const {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i)
      if (own.first + i < at.heads.count) own.store(p, at, own.first + i, weighted[i], sums[own.first + i]);
  }
};

template <typename S>
__device__ inline void store_partials(const AttentionParams& p, const DecodeStreamWork& at, int index,
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
__device__ inline void sum_key_blocks(const AttentionParams& p, const DecodeStreamWork& at,
                                      const DecodeStreamShared<S>& shared, StreamTotals<S>& totals) {
  const TileElements<S>& own = totals.own;
  ptx::PipelineState values;
  values.advance(p.stages, 1);
  for (int i = 0; i < at.count; ++i, values.advance(p.stages, 2)) {
    typename S::Bits* tile = shared.tiles + values.stage * S::kTile;
    const Probabilities<S> probabilities = shared.probabilities_of(i);
    const auto used = ptx::PipelineState::of_consumer(i, kProbabilityStages);
    const int first_key = at.first_key(p, i);
    float2 next[S::kSumHeads];
    float next_max[S::kSumHeads];
    shared.tile_barriers.wait_full(values);
    own.clear_unseen(at.range, first_key, tile);
    shared.pipeline.wait_full(used);
    own.sum_values(tile, probabilities, next);
#pragma unroll
    for (int j = 0; j < S::kSumHeads; ++j) next_max[j] = probabilities.max[own.first + j];
    if (at.range.begin > first_key) ptx::fence_proxy_async();  // the last tile is cleared too, but none follows
    shared.pipeline.release(used.stage);
    if (p.splits == 1)
      totals.fold(next, next_max);
    else
      store_partials<S>(p, at, i, own, next);
  }
}

// The TMA warp, which also sums probabilities: a lane has a head.
template <typename S>
__device__ inline void load_key_blocks(const AttentionParams& p, const DecodeStreamWork& at,
                                       const DecodeStreamShared<S>& shared) {
  const int head = threadIdx.x % kWarp;
  const bool issues_loads = head == 0;
  ptx::PipelineState tiles;
  float max = masked_score(), sum = 0.0f;
  for (int i = 0; i < at.count; ++i) {
    const auto used = ptx::PipelineState::of_consumer(i, kProbabilityStages);
    shared.pipeline.wait_full(used);  // and so the tile of keys is free
    if (issues_loads) load_tile(p, at, shared, 2 * i + p.stages, tiles.stage);
    tiles.advance(p.stages, 1);
    if (head < at.heads.count) {
      const Probabilities<S> probabilities = shared.probabilities_of(i);
      const float next_max = probabilities.max[head], next_sum = probabilities.sum(head);
      if (p.splits == 1) {
        const Rescale rescale(max, next_max);
        max = rescale.max;
        sum = rescale.merged(sum, next_sum);
      } else {
        p.max_and_sum[at.partial_of(p, head, i)] = make_float2(next_max, next_sum);
      }
    }
    shared.pipeline.release(used.stage);
    shared.pipeline.wait_empty(used);  // by all consumers of this phase: the tile of values is free
    if (issues_loads) load_tile(p, at, shared, 2 * i + 1 + p.stages, tiles.stage);
    tiles.advance(p.stages, 1);
  }
  if (head < at.heads.count) shared.sums[head] = sum;
}

// Bits: equal reference::attention, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(S::kThreads,
                             kStreamCtasPerSm) void attention_decode_stream(const __grid_constant__ AttentionParams p) {
#if __CUDA_ARCH__ >= 900
  // Shared memory: DecodeStreamShared
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  const DecodeStreamWork at(p);
  const DecodeStreamShared<S> shared(memory, p.stages);
  const int warp = threadIdx.x / kWarp;
  const bool issues_loads = threadIdx.x == S::kLastWarp * kWarp;

  // Initialize barriers
  if (issues_loads) shared.init_barriers();

  // Prologue: the first tiles, and the queries
  wait_for_previous_kernel();
  if (at.count == 0) return;
  for (int tile = 0; issues_loads && tile < p.stages; ++tile) load_tile(p, at, shared, tile, tile);
  load_queries<S, S::kThreads>(p, at, shared.query);
  __syncthreads();

  // Main loop of each warp role
  StreamTotals<S> totals(threadIdx.x);
  if (warp == S::kLastWarp)
    load_key_blocks(p, at, shared);
  else if (warp >= S::kFirstScoreWarp)
    score_key_blocks(p, at, shared, warp - S::kFirstScoreWarp);
  else
    sum_key_blocks(p, at, shared, totals);

  // Epilogue: divide by the sums of probabilities and store; partials are stored already
  if (p.splits > 1) return;
  __syncthreads();
  if (warp < S::kSumWarps) totals.store(p, at, shared.sums);
#endif
}

template <typename S>
AttentionKernel stream_kernel_of(int stages) {
  static_assert(fits_shared(DecodeStreamShared<S>::bytes(kMinTileStages), 1, kSmSharedBytesSm90),
                "an SM must hold a CTA with the fewest stages");
  return {.function = reinterpret_cast<const void*>(&attention_decode_stream<S>),
          .threads = S::kThreads,
          .shared_bytes = DecodeStreamShared<S>::bytes(stages)};
}

template <typename Kv>
AttentionKernel stream_kernel(int head_dim, int set_heads, int stages) {
  return kernel_of_shape<DecodeStream, Kv>(head_dim, set_heads,
                                           [&]<typename S>() { return stream_kernel_of<S>(stages); });
}

}  // namespace reprofuse::cuda::ops
