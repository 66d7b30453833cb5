// Prefill: what a CTA and a warp own, their shared memory, and how slices of keys and values get there.
#pragma once

#include "kernels/cuda/attention/common.cuh"

namespace reprofuse::cuda::ops {

struct PrefillShape {
  int dim;  // the head's elements rounded up, 64, 128 or 256; and the keys of a step
};

// A thread has 8 x 8 outputs, of scores as well as of weighted sums: a warp, 8 queries of each of kLanesM threads side
// by side, and kDim keys of a step or kDim elements of the head, 8 of each of kLanesN threads.
template <typename Kv_, PrefillShape kShape>
struct Prefill {
  using Kv = Kv_;
  using Bits = typename Kv::Bits;
  static constexpr int kDim = kShape.dim;
  static constexpr int kWarps = 4, kThreads = kWarps * kWarp;
  static constexpr int kCtasPerSm = 2;
  static constexpr int kTile = 8;
  static constexpr int kLanesN = kDim / kTile, kLanesM = kWarp / kLanesN;
  static constexpr int kWarpQueries = kTile * kLanesM, kQueries = kWarps * kWarpQueries;
  static constexpr int kBlocks = kDim / kKeyBlock;  // of a step
  // Keys and values come in slices of 16 terms: elements of all keys of a step, or values of 16 keys.
  static constexpr int kTerms = 16, kSlice = kTerms * kDim, kValueSlices = kKeyBlock / kTerms;
  static constexpr int kPerVector = 16 / sizeof(Bits), kRowVectors = kDim / kPerVector;
  static constexpr int kRowStep = kThreads / kRowVectors;  // terms between the vectors of a thread
  static constexpr int kVectors = kTerms / kRowStep;
  // The left operand of a warp, queries or probabilities, is a panel [term][query]. Groups of 16 terms are padded, so
  // that the stores of probabilities have fewer bank conflicts.
  static constexpr int kGroup = kTerms * kWarpQueries + (kLanesM == 1 ? 0 : 16), kPanel = kDim / kTerms * kGroup;
  static constexpr int kStatistics = 4 * kWarp;  // words of a warp
  static constexpr int kSharedBytes = (2 * kSlice + kWarps * (2 * kPanel + kStatistics)) * 4;
  static_assert(kThreads % kRowVectors == 0 && kTerms % kRowStep == 0, "a thread has one column of some terms");
  static_assert(kBlocks * kWarpQueries == kWarp, "a lane has a query and a key block");
  static_assert(fits_shared(kSharedBytes, 1, kMinSmSharedBytes), "every supported device must have room for a CTA");
  // Totals and running sums; the operands of two terms, and a slice in flight.
  static_assert(2 * kTile * kTile + 4 * kTile + 4 * kVectors + 32 <= registers_per_thread(kThreads, kCtasPerSm),
                "a thread's sums and some 32 registers of addresses must fit");
};

// The queries of a chunk that a CTA owns: query i is head (first + i) % heads.count of row (first + i) / heads.count.
struct PrefillTile {
  kernels::Chunk chunk;
  HeadSet heads;
  int first, queries;
  KeyRange keys;  // that any of its queries sees

  __device__ PrefillTile(const AttentionParams& p, const kernels::Chunk& chunk_, const HeadSet& heads_, int first_,
                         int max_queries)
      : chunk(chunk_),
        heads(heads_),
        first(first_),
        queries(min(max_queries, chunk.rows * heads.count - first)),
        keys(p, chunk.first_position + first / heads.count) {
    keys.end = end_of(queries - 1);
  }
  __device__ int row_of(int query) const { return chunk.first_row + (first + query) / heads.count; }
  __device__ int head_of(int query) const { return heads.first + (first + query) % heads.count; }
  // One past the last key that a query sees.
  __device__ int end_of(int query) const { return chunk.first_position + (first + query) / heads.count + 1; }
};

// A thread's place in its warp. Lanes that differ in bit 0 share the queries and those that differ in bit 1 the other
// operand, as in linear/fma1/tiles_sm80.cuh; a key block lies in 8 lanes.
template <typename S>
struct PrefillThread {
  int m, n;

  __device__ PrefillThread() {
    const int lane = threadIdx.x % kWarp;
    m = S::kLanesM == 1 ? 0 : (lane >> 1 & 1) | (lane >> 3 & (S::kLanesM - 2));
    n = S::kLanesM == 1 ? lane : (lane & 1) | (lane >> 1 & (S::kLanesN - 2));
  }
  __device__ int query(int i) const { return (m + i / 4 * S::kLanesM) * 4 + i % 4; }  // of the warp
  __device__ int first_column() const { return n * S::kTile; }                        // a key, or an element
  __device__ int block() const { return first_column() / kKeyBlock; }
  // The largest of what the 8 lanes of a key block have.
  __device__ static float max_of_block(float value) {
    constexpr int kSkip = S::kLanesM == 1 ? 1 : 2;  // bit 1 is of m
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 2 * kSkip));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 4 * kSkip));
  }
};

template <typename S>
__device__ inline int panel_place(int term, int query) {
  return term / S::kTerms * S::kGroup + term % S::kTerms * S::kWarpQueries + query;
}

// What a warp has of shared memory, for itself.
template <typename S>
struct PrefillPanels {
  float *queries, *probabilities;  // [kPanel]
  float *max, *a, *b;              // [kBlocks][kWarpQueries]: of the step's key blocks
  int* ends;                       // [kWarpQueries]: one past the last key that a query sees

  __device__ explicit PrefillPanels(float* memory) {
    queries = memory + threadIdx.x / kWarp * (2 * S::kPanel + S::kStatistics);
    probabilities = queries + S::kPanel;
    max = probabilities + S::kPanel;
    a = max + kWarp;
    b = a + kWarp;
    ends = reinterpret_cast<int*>(b + kWarp);
  }
};

// Brings slice after slice in the order of their use: into registers, and from there into shared memory in binary32.
// In a row of a slice the first four of 8 columns lie in the first half and the others in the second, so that a warp
// reads and writes vectors side by side. A thread has the same column of several terms.
template <typename S>
struct SliceQueue {
  using Bits = typename S::Bits;
  const AttentionParams& p;
  const PrefillTile& tile;
  int column, place;      // of the thread's first vector: in a term, and in a slice in shared memory
  int pages, next_pages;  // lane l: the page of keys [16 l, 16 l + 16) of the step, and of the next one
  int page_elements;
  const Bits *keys, *values;  // of this head in page 0, from the thread's first vector on
  // Of the next fetch:
  int block, last_block;  // the first of the step, and of the tile
  int operand = 0;        // 0: keys, b + 1: values of the step's block b
  int slice = 0, slices;  // of the operand
  int begin, end;         // of the thread's terms in the operand, counted from its first, that exist
  const Bits* from;       // keys
  int position, stride;   // of the first key of a block; between the thread's vectors
  uint4 held[S::kVectors];

  __device__ SliceQueue(const AttentionParams& params, const PrefillTile& owner) : p(params), tile(owner) {
    const int row = threadIdx.x / S::kRowVectors;
    column = column_of(threadIdx.x % S::kRowVectors);
    place = row * S::kDim + column % 8 / 4 * (S::kDim / 2) + column / 8 * 4;
    page_elements = p.kv.kv_heads * p.kv.head_dim << p.kv.page_shift;
    const std::int64_t head = p.kv.head_offset(0, tile.heads.kv_head);
    keys = static_cast<const Bits*>(p.kv.keys) + head + (row << p.kv.page_shift);
    values = static_cast<const Bits*>(p.kv.values) + head + row * p.kv.head_dim + column;
    block = tile.keys.first_block();
    last_block = block + tile.keys.blocks() - 1;
    next_pages = look_up(block);
    start_keys();
  }

  // Behind the last slice nothing is read. There is no branch, so that all of it can happen between multiply-adds.
  __device__ void fetch() {
    const int term = slice * S::kTerms;
    const int page = __shfl_sync(~0u, pages, (operand - 1) * S::kValueSlices + slice);
    const Bits* at = values + static_cast<std::int64_t>(page) * page_elements +
                     ((position + term) & (p.kv.page_size() - 1)) * p.kv.head_dim;
    if (operand == 0) at = from + (term << p.kv.page_shift);
#pragma unroll
    for (int i = 0; i < S::kVectors; ++i) {
      const int own = term + i * S::kRowStep;
      held[i] = make_uint4(0, 0, 0, 0);
      if (own >= begin && own < end) held[i] = __ldcg(reinterpret_cast<const uint4*>(at + i * stride));
    }
    ++slice;
  }

  // To be called after each fetch.
  __device__ void advance() {
    if (slice < slices) return;
    slice = 0;
    if (++operand <= min(S::kBlocks, last_block - block + 1)) {
      start_values();
    } else {
      operand = 0;
      block += S::kBlocks;
      start_keys();
    }
  }

  __device__ void store(float* memory) const {
#pragma unroll
    for (int i = 0; i < S::kVectors; ++i) {
      float4* to = reinterpret_cast<float4*>(memory + place + i * S::kRowStep * S::kDim);
      if constexpr (sizeof(Bits) == 4) {
        to[0] = make_float4(__uint_as_float(held[i].x), __uint_as_float(held[i].y), __uint_as_float(held[i].z),
                            __uint_as_float(held[i].w));
      } else {
        to[0] = widened(held[i].x, held[i].y);
        to[S::kDim / 8] = widened(held[i].z, held[i].w);
      }
    }
  }

 private:
  __device__ static float4 widened(std::uint32_t a, std::uint32_t b) {
    return make_float4(__uint_as_float(a << 16), __uint_as_float(a & 0xffff0000u), __uint_as_float(b << 16),
                       __uint_as_float(b & 0xffff0000u));
  }
  // Vectors of four: those of first halves before those of second ones, within what a warp reads of a row.
  __device__ static int column_of(int vector) {
    if constexpr (sizeof(Bits) == 2) return vector * 8;
    constexpr int kSpan = S::kRowVectors < kWarp ? S::kRowVectors : kWarp;
    const int in_span = vector % kSpan;
    return (vector - in_span + in_span % (kSpan / 2) * 2 + in_span / (kSpan / 2)) * 4;
  }
  // Pages without a key in the range may not exist.
  __device__ int look_up(int first_block) const {
    const int first = first_block * kKeyBlock + threadIdx.x % (S::kDim / kMinPageSize) * kMinPageSize;
    return first < tile.keys.end && first + kMinPageSize > tile.keys.begin ? p.kv.page_of(tile.chunk.sequence, first)
                                                                           : 0;
  }
  __device__ void start_keys() {
    slices = p.kv.head_dim / S::kTerms;
    pages = next_pages;
    next_pages = look_up(block + S::kBlocks);
    const int key = block * kKeyBlock + column;
    const int page = __shfl_sync(~0u, pages, column / kMinPageSize);
    from = keys + static_cast<std::int64_t>(page) * page_elements + (key & (p.kv.page_size() - 1));
    position = 0;
    stride = S::kRowStep << p.kv.page_shift;
    begin = 0;
    end = key < tile.keys.end && key + S::kPerVector > tile.keys.begin ? p.kv.head_dim : 0;
  }
  __device__ void start_values() {
    slices = S::kValueSlices;
    position = (block + operand - 1) * kKeyBlock;
    stride = S::kRowStep * p.kv.head_dim;
    const int first = position + static_cast<int>(threadIdx.x) / S::kRowVectors;
    begin = tile.keys.begin - first;
    end = column < p.kv.head_dim ? tile.keys.end - first : 0;
  }
};

}  // namespace reprofuse::cuda::ops
