// Prefill: a CTA owns a tile of 64 queries, which are the heads of one set times as many rows as fit, and walks all
// key blocks that they see. Keys and values come through shared memory in slices, ahead of their use. Scores and
// weighted sums are outer products in registers, so each chain ascends over d and over keys by construction.
#pragma once

#include "kernels/cuda/attention/prefill_slices_sm80.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::fma1::ops {

// A thread's place in the tile. Lanes that differ in bit 0 share the queries and those that differ in bit 1 the other
// operand, as in linear/fma1/tiles_sm80.cuh.
template <typename S>
struct PrefillThread {
  int m, n;  // first query and first key, or d; the others follow in steps of 4 * kLanesM and 4 * kLanesN

  __device__ PrefillThread() {
    constexpr int kWarpsM = S::kLanesM / 4;
    const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    m = (warp % kWarpsM * 4 + ((lane >> 1 & 1) | (lane >> 2 & 2))) * 4;
    n = (warp / kWarpsM * 8 + ((lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4))) * 4;
  }
  __device__ int query(int i) const { return m + i / 4 * 4 * S::kLanesM + i % 4; }
  __device__ int dim(int j) const { return n + j / 4 * 4 * S::kLanesN + j % 4; }
};

__device__ inline void unpack(const float4& v, float* to) {
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}

// acc[i][j] += left[query i] * right[j] for the terms of one slice, in ascending order.
template <typename S, int kTerms, int kCount, int kRightStride>
__device__ inline void multiply_slice(const PrefillThread<S>& at, const float* left, const typename S::Bits* right,
                                      float (&acc)[S::kM][kCount]) {
#pragma unroll 8
  for (int term = 0; term < kTerms; ++term) {
    float l[S::kM], r[kCount];
#pragma unroll
    for (int i = 0; i < S::kM; i += 4)
      unpack(*reinterpret_cast<const float4*>(left + term * kPrefillQueries + at.query(i)), l + i);
#pragma unroll
    for (int j = 0; j < kCount; j += 4) unpack(widen4<typename S::Kv>(right + term * kRightStride + at.dim(j)), r + j);
#pragma unroll
    for (int i = 0; i < S::kM; ++i)
#pragma unroll
      for (int j = 0; j < kCount; ++j) acc[i][j] = fma_rn(l[i], r[j], acc[i][j]);
  }
}

// The tile's queries, transposed, with zeros beyond the last query and the last element.
template <typename S>
__device__ inline void load_queries(const AttentionParams& p, const PrefillTile& tile, const PrefillShared<S>& shared) {
  const int query = threadIdx.x % kPrefillQueries;
  const bool exists = query < tile.rows * tile.heads.count;
  const float* from = p.q;
  if (exists) from += tile.row_of(query) * p.q_stride + tile.head_of(query) * p.kv.head_dim;
  for (int d = threadIdx.x / kPrefillQueries * 4; d < S::kDim; d += S::kParts * 4) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (exists && d < p.kv.head_dim)
      v = p.q_aligned ? *reinterpret_cast<const float4*>(from + d)
                      : make_float4(from[d], from[d + 1], from[d + 2], from[d + 3]);
    float* to = shared.query + d * kPrefillQueries + query;
    to[0] = v.x;
    to[kPrefillQueries] = v.y;
    to[2 * kPrefillQueries] = v.z;
    to[3 * kPrefillQueries] = v.w;
  }
}

// Leaves the scores of one key block in shared memory, masked where a query does not see a key.
template <typename S>
__device__ inline void store_scores(const AttentionParams& p, const PrefillTile& tile, const PrefillThread<S>& at,
                                    const PrefillShared<S>& shared, int block, float (&scores)[S::kM][4]) {
#pragma unroll
  for (int i = 0; i < S::kM; ++i) {
    const int query = at.query(i), end = shared.ends[query];
    const int begin = p.window > 0 ? max(0, end - p.window) : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = block * kKeyBlock + at.n + j;
      const bool seen = key >= begin && key < end;
      const float score = __fmul_rn(scores[i][j], p.scale);
      if (seen) record_if_not_finite(p.record, p.op, tile.row_of(query), tile.head_of(query), score);
      scores[i][j] = seen ? score : masked_score();
    }
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int i = 0; i < S::kM; i += 4)
      *reinterpret_cast<float4*>(shared.probabilities + (at.n + j) * kPrefillQueries + at.query(i)) =
          make_float4(scores[i][j], scores[i + 1][j], scores[i + 2][j], scores[i + 3][j]);
}

// The softmax of one key block. kParts threads share a query; the first of them keeps its running maximum and sum.
template <typename S>
struct Softmax {
  static constexpr int kKeys = kKeyBlock / S::kParts;  // of a thread
  int query = threadIdx.x % kPrefillQueries, part = threadIdx.x / kPrefillQueries;
  float max = masked_score(), sum = 0.0f;

  // Scores become probabilities; a and b of the merge are left beside them. A query that sees no key of the block keeps
  // its totals: a = 1, b = 0.
  __device__ void run(const PrefillShared<S>& shared) {
    float* own = shared.probabilities + part * kKeys * kPrefillQueries + query;
    float block_max = masked_score();
#pragma unroll 8
    for (int key = 0; key < kKeys; ++key) block_max = fmaxf(block_max, own[key * kPrefillQueries]);
    shared.part_max[part * kPrefillQueries + query] = block_max;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::kParts; ++i) block_max = fmaxf(block_max, shared.part_max[i * kPrefillQueries + query]);
#pragma unroll 8
    for (int key = 0; key < kKeys; ++key) {
      const float score = own[key * kPrefillQueries];
      own[key * kPrefillQueries] = score == masked_score() ? 0.0f : exp_nonpositive_f32(__fsub_rn(score, block_max));
    }
    __syncthreads();
    if (part == 0) merge_sum(shared, block_max);
  }

 private:
  __device__ void merge_sum(const PrefillShared<S>& shared, float block_max) {
    if (block_max == masked_score()) {
      shared.a[query] = 1.0f;
      shared.b[query] = 0.0f;
      return;
    }
    const Rescale rescale(max, block_max);
    shared.a[query] = rescale.a;
    shared.b[query] = rescale.b;
    float block_sum = 0.0f;  // a chain in ascending key order
#pragma unroll 16
    for (int key = 0; key < kKeyBlock; ++key)
      block_sum = __fadd_rn(block_sum, shared.probabilities[key * kPrefillQueries + query]);
    max = rescale.max;
    sum = rescale.merged(sum, block_sum);
  }
};

template <typename S>
__device__ inline void merge_block(const PrefillThread<S>& at, const PrefillShared<S>& shared,
                                   const float (&next)[S::kM][S::kN], float (&total)[S::kM][S::kN]) {
#pragma unroll
  for (int i = 0; i < S::kM; ++i) {
    const float a = shared.a[at.query(i)], b = shared.b[at.query(i)];
#pragma unroll
    for (int j = 0; j < S::kN; ++j) total[i][j] = fma_rn(total[i][j], a, __fmul_rn(next[i][j], b));
  }
}

template <typename S>
__device__ inline void store_results(const AttentionParams& p, const PrefillTile& tile, const PrefillThread<S>& at,
                                     const float* sums, const float (&total)[S::kM][S::kN]) {
#pragma unroll
  for (int i = 0; i < S::kM; ++i) {
    const int query = at.query(i);
    if (query >= tile.rows * tile.heads.count) continue;
    float* out = p.out + tile.row_of(query) * p.out_stride + tile.head_of(query) * p.kv.head_dim;
#pragma unroll
    for (int j = 0; j < S::kN; ++j)
      if (at.dim(j) < p.kv.head_dim) out[at.dim(j)] = finished(total[i][j], sums[query]);
  }
}

// Bits: equal reference::attention.
template <typename S>
__global__ __launch_bounds__(S::kThreads) void attention_prefill(const __grid_constant__ AttentionParams p) {
  // The CTA's tile
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  wait_for_previous_kernel();
  const kernels::Chunk chunk = p.chunks[blockIdx.z];
  const HeadSet heads(p);
  const int tile_rows = kPrefillQueries / p.set_heads;
  const int first = (gridDim.x - 1 - blockIdx.x) * tile_rows;  // the longest first
  if (chunk.rows < p.prefill_from || first >= chunk.rows) return;
  const int rows = min(tile_rows, chunk.rows - first), position = chunk.first_position + first;
  PrefillTile tile{chunk.first_row + first, rows, chunk.sequence, KeyRange(p, position), heads};
  tile.keys.end = position + rows;

  // Prologue: queries, and the first slices of keys on their way
  const PrefillShared<S> shared(memory);
  SliceQueue<S> queue(p, tile, shared.stages);
  load_queries<S>(p, tile, shared);
  if (threadIdx.x < kPrefillQueries)
    shared.ends[threadIdx.x] = threadIdx.x < rows * heads.count ? position + threadIdx.x / heads.count + 1 : 0;

  // Main loop over key blocks: scores, softmax, weighted sums
  const PrefillThread<S> at;
  Softmax<S> softmax;
  float total[S::kM][S::kN] = {};
  for (int block = tile.keys.first_block(); block * kKeyBlock < tile.keys.end; ++block) {
    float scores[S::kM][4] = {};
    for (int slice = 0; slice < queue.key_slices; ++slice)
      multiply_slice<S, S::kSliceDims, 4, kKeyBlock>(at, shared.query + slice * S::kSliceDims * kPrefillQueries,
                                                     queue.next(), scores);
    store_scores<S>(p, tile, at, shared, block, scores);
    __syncthreads();
    softmax.run(shared);
    float next[S::kM][S::kN] = {};
    for (int slice = 0; slice < S::kValueSlices; ++slice)
      multiply_slice<S, S::kSliceKeys, S::kN, S::kDim>(
          at, shared.probabilities + slice * S::kSliceKeys * kPrefillQueries, queue.next(), next);
    merge_block<S>(at, shared, next, total);
  }

  // Epilogue
  if (softmax.part == 0) shared.sum[softmax.query] = softmax.sum;
  __syncthreads();
  store_results<S>(p, tile, at, shared.sum, total);
}

template <typename S>
AttentionKernel prefill_kernel_of() {
  return {reinterpret_cast<const void*>(&attention_prefill<S>), S::kThreads, S::kSharedBytes};
}

template <typename Kv>
AttentionKernel prefill_kernel(int head_dim) {
  if (head_dim <= 64) return prefill_kernel_of<PrefillShape<Kv, 64>>();
  if (head_dim <= 128) return prefill_kernel_of<PrefillShape<Kv, 128>>();
  return prefill_kernel_of<PrefillShape<Kv, 256>>();
}

}  // namespace reprofuse::cuda::fma1::ops
