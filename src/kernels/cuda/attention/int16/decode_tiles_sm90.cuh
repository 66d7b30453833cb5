// Decode by contracts int16-1 and exact-2 where there is a TMA: tiles of digits, what brings them and what works on
// them.
#pragma once

#include "kernels/cuda/attention/int16/block_loads_sm90.cuh"
#include "kernels/cuda/attention/int16/queries_sm80.cuh"
#include "kernels/cuda/ptx/cluster.cuh"

namespace reprofuse::cuda::int16::ops {

struct StreamShape {
  int head_dim;
  int stages;       // tiles in shared memory
  int ctas_per_sm;  // that they leave room for
};

template <typename Numbers, StreamShape kShape>
struct Stream : RowsShape<Numbers, kShape.head_dim> {
  static constexpr int kDim = kShape.head_dim, kStages = kShape.stages, kCtasPerSm = kShape.ctas_per_sm;
  static constexpr int kPlaneBytes = kKeyBlock * kDim;
  static constexpr int kThreads = kRowsThreads + kWarp;
};

template <typename S>
struct Tile {
  std::uint8_t digits[S::N::kDigits * S::kPlaneBytes];
  std::uint8_t key_units[kKeyBlock], value_units[kKeyBlock];  // of tiles of keys
};

template <typename S>
struct StreamShared {
  alignas(128) Tile<S> tiles[S::kStages];
  Shared<typename S::N> queries;
  std::uint64_t barriers[2 * S::kStages];
  // What the CTA shows its cluster.
  float weighted[kRowsQueries][S::kDim];
  float max[kRowsQueries], sum[kRowsQueries], scale[kRowsQueries];

  __device__ ptx::Pipeline pipeline() { return {barriers, S::kStages}; }
};

// The four warps alone; barrier 0 is __syncthreads().
__device__ inline void sync_workers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kRowsThreads) : "memory");
}

// Four core matrices: word `lane % 4` of row `lane / 4` of each. A lane names one row, of matrix `lane / 8`.
__device__ inline void load_matrices(std::uint32_t (&words)[4], const std::uint8_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(ptx::shared_address(row))
               : "memory");
}

// The left operand of 32 terms: the digits of a row.
template <typename N>
struct LeftDigits {
  std::uint32_t digits[N::kDigits][2];

  template <typename Planes>
  __device__ void load(const Planes& planes, int first) {
    const int row = own_query(), place = first + threadIdx.x % 4 * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int digit = 0; digit < N::kDigits; ++digit)
        digits[digit][half] = *reinterpret_cast<const std::uint32_t*>(&planes[digit][row][place + half * 16]);
  }
};

// 64 terms by all digits of the right operand. `row` is the lane's row of the highest ones.
template <int kPlaneBytes, typename N>
__device__ inline void multiply_64(DigitSums<N>& sums, const LeftDigits<N> (&left)[2], const std::uint8_t* row) {
  std::uint32_t right[N::kDigits][4];
#pragma unroll
  for (int digit = 0; digit < N::kDigits; ++digit) load_matrices(right[digit], row + digit * kPlaneBytes);
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    std::uint32_t words[N::kDigits][2];
#pragma unroll
    for (int digit = 0; digit < N::kDigits; ++digit) {
      words[digit][0] = right[digit][2 * step];
      words[digit][1] = right[digit][2 * step + 1];
    }
    sums.multiply(left[step].digits, words);
  }
}

template <typename S>
__device__ inline void score_tile(const AttentionParams& p, const QueryRow& row, float factor, int first_key,
                                  const LeftDigits<typename S::N> (&query)[S::kDim / 64][2], const Tile<S>& keys,
                                  Scores& own) {
  const int lane = threadIdx.x % kWarp, first_tile = threadIdx.x / kWarp * kTiles;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    DigitSums<typename S::N> sums;
    const std::uint8_t* from = keys.digits + (first_tile + tile) * (S::kDim * kCoreRows) + lane * kCoreRowBytes;
#pragma unroll
    for (int i = 0; i < S::kDim / 64; ++i) multiply_64<S::kPlaneBytes>(sums, query[i], from + i * 4 * kCoreBytes);
    const int key = (first_tile + tile) * kCoreRows + lane % 4 * 2;
    own.set(p, row, factor, tile, first_key + key, sums, *reinterpret_cast<const uchar2*>(keys.key_units + key),
            *reinterpret_cast<const uchar2*>(keys.value_units + key));
  }
}

// Calls take(i, sums) with the block's weighted sums of the thread's elements.
template <typename S, typename Take>
__device__ inline void sum_tile(const Shared<typename S::N>& shared, const Tile<S>& values, const Take& take) {
  const int lane = threadIdx.x % kWarp;
  LeftDigits<typename S::N> weights[kKeyBlock / 64][2];
#pragma unroll
  for (int i = 0; i < kKeyBlock / 32; ++i) weights[i / 2][i % 2].load(shared.weights, i * 32);
#pragma unroll
  for (int i = 0; i < S::kDimGroups; ++i) {
    DigitSums<typename S::N> sums;
    const std::uint8_t* from =
        values.digits + lane / 8 * (S::kDim * kKeyGroup) + Totals<S>::group(i) * kCoreBytes + lane % 8 * kCoreRowBytes;
#pragma unroll
    for (int j = 0; j < kKeyBlock / 64; ++j)
      multiply_64<S::kPlaneBytes>(sums, weights[j], from + j * 4 * (S::kDim * kKeyGroup));
    take(i, make_float2(sums.value(0), sums.value(1)));
  }
}

// The blocks of a CTA: every p.splits-th of the row's, from blockIdx.x on.
struct StreamWork : DecodeWork {
  int count;

  __device__ explicit StreamWork(const AttentionParams& p)
      : DecodeWork(p), count(max(0, ceil_div(key_blocks - static_cast<int>(blockIdx.x), p.splits))) {}
  __device__ int block(const AttentionParams& p, int i) const { return first_block + blockIdx.x + i * p.splits; }
};

// The TMA warp: the CTA's first blocks on their way to the L2 while the kernels ahead still run. Keys that one of them
// is about to store are loaded after the wait, as all others are.
template <typename S>
__device__ inline void prefetch_tiles(const AttentionParams& p, const StreamWork& at) {
  constexpr int kBlocks = (S::kStages + 1) / 2;
  const BlockPieces<kKeyBlock, S::kDim, S::N::kDigits> pieces(p, at.sequence, at.heads.kv_head, at.range.begin,
                                                              at.range.end);
  for (int i = 0; i < min(kBlocks, at.count); ++i) {
    const int block = at.block(p, i), page = pieces.page(block);
    pieces.prefetch_digits(p.kv.keys, block, page);
    pieces.prefetch_digits(p.kv.values, block, page);
  }
}

// The TMA warp: tile 2 i is the keys of the CTA's i-th block, tile 2 i + 1 its values.
template <typename S>
__device__ inline void load_tiles(const AttentionParams& p, const StreamWork& at, StreamShared<S>& shared) {
  const BlockPieces<kKeyBlock, S::kDim, S::N::kDigits> pieces(p, at.sequence, at.heads.kv_head, at.range.begin,
                                                              at.range.end);
  const ptx::Pipeline pipeline = shared.pipeline();
  int page = pieces.page(at.block(p, 0));
  for (int i = 0; i < at.count; ++i) {
    const int block = at.block(p, i), next_page = i + 1 < at.count ? pieces.page(at.block(p, i + 1)) : -1;
#pragma unroll
    for (int of_values = 0; of_values < 2; ++of_values) {
      const int tile = 2 * i + of_values;
      const auto to = ptx::PipelineState::of_producer(tile, S::kStages);
      if (tile >= S::kStages) pipeline.wait_empty(to);
      Tile<S>& stage = shared.tiles[to.stage];
      std::uint64_t* const full = pipeline.full_barrier(to.stage);
      if (of_values == 0) {
        pieces.load_digits(p.kv.keys, block, page, stage.digits, full, pieces.unit_bytes());
        pieces.load_units(block, page, stage.key_units, stage.value_units, full);
      } else {
        pieces.load_digits(p.kv.values, block, page, stage.digits, full);
      }
    }
    page = next_page;
  }
}

// One of the four warps: calls take_block(index, softmax, tile of values) for each block, which has to call sum_tile().
template <typename S, typename TakeBlock>
__device__ inline void work_on_tiles(const AttentionParams& p, const StreamWork& at, StreamShared<S>& shared,
                                     const TakeBlock& take_block) {
  const DecodeQueries row_of{at};
  const QueryRow row = row_of(own_query());
  const ptx::Pipeline pipeline = shared.pipeline();
  snap_queries<S>(p, row_of, shared.queries);
  sync_workers();
  LeftDigits<typename S::N> query[S::kDim / 64][2];
#pragma unroll
  for (int i = 0; i < S::kDim / 32; ++i) query[i / 2][i % 2].load(shared.queries.query, i * 32);
  const float factor = shared.queries.factor[own_query()];
  ptx::PipelineState tile;
  for (int i = 0; i < at.count; ++i) {
    Scores scores;
    pipeline.wait_full(tile);
    score_tile<S>(p, row, factor, at.block(p, i) * kKeyBlock, query, shared.tiles[tile.stage], scores);
    pipeline.release(tile.stage);
    tile.advance(S::kStages);
    const QuerySoftmax softmax = weigh_keys(scores, shared.queries, sync_workers);
    pipeline.wait_full(tile);
    take_block(at.block(p, i), softmax, shared.tiles[tile.stage]);
    pipeline.release(tile.stage);
    tile.advance(S::kStages);
  }
}

template <typename S>
__device__ inline void init_barriers(StreamShared<S>& shared) {
  if (threadIdx.x == 0) {
    shared.pipeline().init(1, kRowsThreads);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

// Folds the cluster's partials: a warp has 32 elements of one head, a lane one.
template <typename S>
__device__ inline void fold_cluster(const AttentionParams& p, const StreamWork& at, const StreamShared<S>& shared) {
  const int lane = threadIdx.x % kWarp, step = p.splits * kRowsThreads;
  for (int e = blockIdx.x * kRowsThreads + threadIdx.x; e < at.heads.count * S::kDim; e += step) {
    const int head = e / S::kDim, d = e % S::kDim;
    fma1::ops::PartialHead own{masked_score(), 0.0f, 0.0f};
    if (lane < at.key_blocks)
      own = {ptx::ld_shared_cluster(&shared.max[head], lane), ptx::ld_shared_cluster(&shared.sum[head], lane),
             ptx::ld_shared_cluster(&shared.scale[head], lane)};
    float next[kMaxCluster];
#pragma unroll
    for (int i = 0; i < kMaxCluster; ++i)
      next[i] = i < at.key_blocks ? ptx::ld_shared_cluster(&shared.weighted[head][d], i) : 0.0f;
    float max = masked_score(), sum = 0.0f, total = 0.0f;
    const fma1::ops::FoldSteps<FoldDigits<typename S::N>> steps(own, &max);
#pragma unroll
    for (int i = 0; i < kMaxCluster; ++i) {
      const float a = __shfl_sync(~0u, steps.a, i), b = __shfl_sync(~0u, steps.b, i);
      const float scaled_sum = __shfl_sync(~0u, steps.scaled_sum, i);
      if (i >= at.key_blocks) continue;
      sum = fma_rn(sum, a, scaled_sum);
      total = fma_rn(total, a, __fmul_rn(next[i], b));
    }
    p.out[at.row * p.out_stride + (at.heads.first + head) * S::kDim + d] = fma1::ops::finished(total, sum);
  }
}

}  // namespace reprofuse::cuda::int16::ops
