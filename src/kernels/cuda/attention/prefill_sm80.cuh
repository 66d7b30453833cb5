// Prefill: a CTA owns a tile of queries and walks the keys that they see in steps of one to four key blocks. A warp
// alone looks at the scores of its queries, so that the CTA synchronises for slices of keys and values only. Scores and
// weighted sums are outer products in registers, by the same loop; chains ascend over d and over keys by construction.
#pragma once

#include "kernels/cuda/attention/prefill_slices_sm80.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::ops {

template <typename S>
using PrefillSums = float[S::kTile][S::kTile];

// The thread's operands at one term.
template <typename S>
struct PrefillFragment {
  float left[S::kTile], right[S::kTile];

  __device__ void load(const PrefillThread<S>& at, const float* panel, const float* slice, int term) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<float4*>(left + 4 * i) =
          *reinterpret_cast<const float4*>(panel + term * S::kWarpQueries + at.query(4 * i));
      *reinterpret_cast<float4*>(right + 4 * i) =
          *reinterpret_cast<const float4*>(slice + term * S::kDim + i * S::kDim / 2 + at.n * 4);
    }
  }
};

// sums[i][j] += left[query i] * right[column j] for the terms of one slice, in ascending order. Operands are read one
// term ahead. In each term the chains advance along a snake, so that each step finds an operand where the last left it.
template <typename S>
__device__ inline void multiply_slice(const PrefillThread<S>& at, const float* panel, const float* slice,
                                      PrefillSums<S>& sums) {
  PrefillFragment<S> fragments[2];
  fragments[0].load(at, panel, slice, 0);
#pragma unroll
  for (int term = 0; term < S::kTerms; ++term) {
    if (term + 1 < S::kTerms) fragments[(term + 1) % 2].load(at, panel, slice, term + 1);
    const PrefillFragment<S>& f = fragments[term % 2];
#pragma unroll
    for (int i = 0; i < S::kTile; ++i)
#pragma unroll
      for (int step = 0; step < S::kTile; ++step) {
        const int j = i % 2 == 0 ? step : S::kTile - 1 - step;
        sums[i][j] = fma_rn(f.left[i], f.right[j], sums[i][j]);
      }
  }
}

// The warp's queries, transposed, with zeros for those beyond the last.
template <typename S>
__device__ inline void load_queries(const AttentionParams& p, const PrefillTile& tile, const PrefillPanels<S>& panels) {
  constexpr int kQueryLanes = kWarp / S::kWarpQueries;  // that have the same query
  const int lane = threadIdx.x % kWarp, in_warp = lane % S::kWarpQueries;
  const int query = threadIdx.x / kWarp * S::kWarpQueries + in_warp;
  const bool exists = query < tile.queries;
  const float* from = p.q;
  if (exists) from += tile.row_of(query) * p.q_stride + tile.head_of(query) * p.kv.head_dim;
  for (int d = lane / S::kWarpQueries * 4; d < p.kv.head_dim; d += kQueryLanes * 4) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (exists)
      v = p.q_aligned ? *reinterpret_cast<const float4*>(from + d)
                      : make_float4(from[d], from[d + 1], from[d + 2], from[d + 3]);
    float* to = panels.queries + panel_place<S>(d, in_warp);
    to[0] = v.x;
    to[S::kWarpQueries] = v.y;
    to[2 * S::kWarpQueries] = v.z;
    to[3 * S::kWarpQueries] = v.w;
  }
  // Queries beyond the last see what it sees.
  if (lane < S::kWarpQueries) panels.ends[in_warp] = tile.end_of(min(query, tile.queries - 1));
}

// The softmax of a warp's queries. A lane has one of them and one key block of a step; the running maximum and sum of
// the query are alike in all lanes that have it.
template <typename S>
struct PrefillSoftmax {
  const AttentionParams& p;
  const PrefillTile& tile;
  const PrefillThread<S>& at;
  const PrefillPanels<S>& panels;
  float max = masked_score(), sum = 0.0f;

  // Scores of the step that starts with key `first` become probabilities in shared memory, and what its blocks are
  // merged with is left beside them.
  __device__ void run(int first, PrefillSums<S>& scores) {
    scale_and_mask(first, scores);
    float block_max[S::kTile];
#pragma unroll
    for (int i = 0; i < S::kTile; ++i) {
      float m = scores[i][0];
#pragma unroll
      for (int j = 1; j < S::kTile; ++j) m = fmaxf(m, scores[i][j]);
      block_max[i] = at.max_of_block(m);
    }
    __syncwarp();  // all have merged the step before
    if (at.n % (kKeyBlock / S::kTile) == 0)
#pragma unroll
      for (int i = 0; i < S::kTile; ++i) panels.max[at.block() * S::kWarpQueries + at.query(i)] = block_max[i];
    store_probabilities(scores, block_max);
    __syncwarp();
    merge_sums();
    __syncwarp();
  }

 private:
  __device__ bool sees(int query, int key) const {
    const int end = panels.ends[query];
    return key < end && (p.window == 0 || key >= end - p.window);
  }

  __device__ void scale_and_mask(int first, PrefillSums<S>& scores) const {
    // Times zero, what is not finite is a NaN.
    float check = 0.0f;
    const bool whole =
        first + S::kDim <= panels.ends[0] && (p.window == 0 || first >= panels.ends[S::kWarpQueries - 1] - p.window);
    const int column = first + at.first_column();
    if (whole) {
#pragma unroll
      for (int i = 0; i < S::kTile; ++i)
#pragma unroll
        for (int j = 0; j < S::kTile; ++j) {
          scores[i][j] = __fmul_rn(scores[i][j], p.scale);
          check = fma_rn(scores[i][j], 0.0f, check);
        }
    } else {
#pragma unroll
      for (int i = 0; i < S::kTile; ++i) {
        const int end = panels.ends[at.query(i)], begin = p.window == 0 ? 0 : end - p.window;
#pragma unroll
        for (int j = 0; j < S::kTile; ++j) {
          const bool seen = column + j < end && column + j >= begin;
          const float score = __fmul_rn(scores[i][j], p.scale);
          check = fma_rn(seen ? score : 0.0f, 0.0f, check);
          scores[i][j] = seen ? score : masked_score();
        }
      }
    }
    if (check == 0.0f) return;
#pragma unroll
    for (int i = 0; i < S::kTile; ++i)
#pragma unroll
      for (int j = 0; j < S::kTile; ++j) {
        const int query = at.query(i), in_tile = threadIdx.x / kWarp * S::kWarpQueries + query;
        if (in_tile < tile.queries && sees(query, column + j))
          record_if_not_finite(p.record, p.op, tile.row_of(in_tile), tile.head_of(in_tile), scores[i][j]);
      }
  }

  // A masked score gives 0, because exp of anything below -104 is 0.
  __device__ void store_probabilities(const PrefillSums<S>& scores, const float (&block_max)[S::kTile]) const {
    float shift[S::kTile];
#pragma unroll
    for (int i = 0; i < S::kTile; ++i) shift[i] = block_max[i] == masked_score() ? 0.0f : block_max[i];
#pragma unroll
    for (int i = 0; i < S::kTile; i += 4) {
      float* to = panels.probabilities + panel_place<S>(at.first_column(), at.query(i));
#pragma unroll
      for (int j = 0; j < S::kTile; ++j) {
        float4 v;
        v.x = exp_nonpositive_f32(__fsub_rn(scores[i][j], shift[i]));
        v.y = exp_nonpositive_f32(__fsub_rn(scores[i + 1][j], shift[i + 1]));
        v.z = exp_nonpositive_f32(__fsub_rn(scores[i + 2][j], shift[i + 2]));
        v.w = exp_nonpositive_f32(__fsub_rn(scores[i + 3][j], shift[i + 3]));
        *reinterpret_cast<float4*>(to + j * S::kWarpQueries) = v;
      }
    }
  }

  // A query that sees no key of a block keeps its totals: a = 1, b = 0.
  __device__ void merge_sums() {
    const int lane = threadIdx.x % kWarp, query = lane % S::kWarpQueries, block = lane / S::kWarpQueries;
    float block_sum = 0.0f;  // a chain in ascending key order
#pragma unroll
    for (int key = 0; key < kKeyBlock; ++key)
      block_sum =
          __fadd_rn(block_sum, panels.probabilities[block * S::kValueSlices * S::kGroup + panel_place<S>(key, query)]);
    float before = max;
#pragma unroll
    for (int b = 0; b < S::kBlocks; ++b) {
      const float of_block = panels.max[b * S::kWarpQueries + query];
      if (b < block) before = fmaxf(before, of_block);
      max = fmaxf(max, of_block);
    }
    const float block_max = panels.max[lane];
    const bool seen = block_max != masked_score();
    const Rescale rescale(before, block_max);
    const float a = seen ? rescale.a : 1.0f, b = seen ? rescale.b : 0.0f, scaled_sum = __fmul_rn(block_sum, b);
    panels.a[lane] = a;
    panels.b[lane] = b;
#pragma unroll
    for (int i = 0; i < S::kBlocks; ++i) {
      const int from = i * S::kWarpQueries + query;
      sum = fma_rn(sum, __shfl_sync(~0u, a, from), __shfl_sync(~0u, scaled_sum, from));
    }
  }
};

template <typename S>
__device__ inline void merge_block(const PrefillThread<S>& at, const PrefillPanels<S>& panels, int block,
                                   const PrefillSums<S>& next, PrefillSums<S>& total) {
#pragma unroll
  for (int i = 0; i < S::kTile; ++i) {
    const int from = block * S::kWarpQueries + at.query(i);
    const float a = panels.a[from], b = panels.b[from];
#pragma unroll
    for (int j = 0; j < S::kTile; ++j) total[i][j] = fma_rn(total[i][j], a, __fmul_rn(next[i][j], b));
  }
}

template <typename S>
__device__ inline void store_results(const AttentionParams& p, const PrefillTile& tile, const PrefillThread<S>& at,
                                     const float* sums, const PrefillSums<S>& total) {
  if (at.first_column() >= p.kv.head_dim) return;
#pragma unroll
  for (int i = 0; i < S::kTile; ++i) {
    const int query = threadIdx.x / kWarp * S::kWarpQueries + at.query(i);
    if (query >= tile.queries) continue;
    float* out = p.out + tile.row_of(query) * p.out_stride + tile.head_of(query) * p.kv.head_dim + at.first_column();
#pragma unroll
    for (int j = 0; j < S::kTile; ++j) out[j] = finished(total[i][j], sums[at.query(i)]);
  }
}

template <typename S>
__device__ inline void clear(PrefillSums<S>& sums) {
#pragma unroll
  for (int i = 0; i < S::kTile; ++i)
#pragma unroll
    for (int j = 0; j < S::kTile; ++j) sums[i][j] = 0.0f;
}

// Bits: equal reference::attention. One piece: sums stay in registers from the main loop to the epilogue.
template <typename S>
__global__ __launch_bounds__(S::kThreads,
                             S::kCtasPerSm) void attention_prefill(const __grid_constant__ AttentionParams p) {
  // The CTA's tile
  extern __shared__ __align__(128) float prefill_memory[];
  let_next_kernel_start();
  wait_for_previous_kernel();
  const kernels::Chunk chunk = p.chunks[blockIdx.z];
  const HeadSet heads(p, blockIdx.x);
  const int first = (gridDim.y - 1 - blockIdx.y) * S::kQueries;  // the longest first
  if (chunk.rows < p.prefill_from || first >= chunk.rows * heads.count) return;
  const PrefillTile tile(p, chunk, heads, first, S::kQueries);

  // Prologue: queries, and the first slice of keys
  float* const buffers = prefill_memory;  // [2][kSlice]
  const PrefillPanels<S> panels(buffers + 2 * S::kSlice);
  SliceQueue<S> queue(p, tile);
  queue.fetch();
  queue.advance();
  load_queries<S>(p, tile, panels);
  queue.store(buffers);
  __syncthreads();

  // Main loop over steps of key blocks: scores and their softmax, then the weighted sums of each block
  const PrefillThread<S> at;
  PrefillSoftmax<S> softmax{p, tile, at, panels};
  float total[S::kTile][S::kTile], sums[S::kTile][S::kTile];
  clear<S>(total);
  int use = 0;  // the buffer whose slice is multiplied next
  const int end_block = tile.keys.first_block() + tile.keys.blocks();
#pragma unroll 1
  for (int block = tile.keys.first_block(); block < end_block; block += S::kBlocks) {
    const int blocks = min(S::kBlocks, end_block - block);
#pragma unroll 1
    for (int operand = 0; operand <= blocks; ++operand) {
      clear<S>(sums);
      const float* panel =
          operand == 0 ? panels.queries : panels.probabilities + (operand - 1) * S::kValueSlices * S::kGroup;
      const int slices = operand == 0 ? p.kv.head_dim / S::kTerms : S::kValueSlices;
#pragma unroll 1
      for (int i = 0; i < slices; ++i) {
        queue.fetch();
        multiply_slice<S>(at, panel + i * S::kGroup, buffers + use, sums);
        use ^= S::kSlice;
        queue.store(buffers + use);
        queue.advance();
        __syncthreads();
      }
      if (operand == 0)
        softmax.run(block * kKeyBlock, sums);
      else
        merge_block<S>(at, panels, operand - 1, sums, total);
    }
  }

  // Epilogue
  const int lane = threadIdx.x % kWarp;
  __syncwarp();
  if (lane < S::kWarpQueries) panels.max[lane] = softmax.sum;
  __syncwarp();
  store_results<S>(p, tile, at, panels.max, total);
}

template <typename S>
PrefillKernel prefill_kernel_of() {
  return {{reinterpret_cast<const void*>(&attention_prefill<S>), S::kThreads, S::kSharedBytes}, S::kQueries};
}

template <typename Kv>
PrefillKernel prefill_kernel(int head_dim) {
  if (head_dim <= 64) return prefill_kernel_of<Prefill<Kv, PrefillShape{.dim = 64}>>();
  if (head_dim <= 128) return prefill_kernel_of<Prefill<Kv, PrefillShape{.dim = 128}>>();
  return prefill_kernel_of<Prefill<Kv, PrefillShape{.dim = 256}>>();
}

}  // namespace reprofuse::cuda::ops
