// Prefill: what a CTA owns, its shared memory, and how slices of keys and values get there.
#pragma once

#include "kernels/cuda/attention/common.cuh"

namespace reprofuse::cuda::fma1::ops {

// kDim: the head's elements rounded up, 64, 128 or 256.
template <typename Kv_, int kDim_>
struct PrefillShape {
  using Kv = Kv_;
  using Bits = typename Kv::Bits;
  static constexpr int kDim = kDim_;
  static constexpr int kThreads = kDim == 256 ? 256 : 128;
  static constexpr int kStages = kDim == 256 ? 2 : 3;
  static constexpr int kPerVector = 16 / sizeof(Bits);
  // A slice is 2048 elements: of the keys kSliceDims elements of all keys, of the values kSliceKeys whole ones.
  static constexpr int kSlice = 2048, kSliceDims = kSlice / kKeyBlock, kSliceKeys = kSlice / kDim;
  static constexpr int kValueSlices = kKeyBlock / kSliceKeys;
  static constexpr int kSliceVectors = kSlice / kPerVector / kThreads;  // of a thread
  // 16 threads side by side over keys or d, 4 neighbours each; kM queries each.
  static constexpr int kLanesN = 16, kLanesM = kThreads / kLanesN;
  static constexpr int kM = kPrefillQueries / kLanesM, kN = kDim / kLanesN;
  static constexpr int kParts = kThreads / kPrefillQueries;  // threads that share a query's softmax
  static constexpr int kStatistics = 4 + kParts;             // floats per query
  static constexpr int kSharedBytes =
      (kDim + kKeyBlock + kStatistics) * kPrefillQueries * 4 + kStages * kSlice * static_cast<int>(sizeof(Bits));
  static_assert(kKeyBlock == 64 && kPrefillQueries == 64, "16 x kLanesM threads cover the scores");
  static_assert(kM % 4 == 0 && kN % 4 == 0, "a thread has squares of 4 x 4 outputs");
  static_assert(fits_shared(kSharedBytes, 1, kMinSmSharedBytes), "every supported device must have room for a CTA");
  // Totals and the sums of a key block; the operands of two terms.
  static_assert(2 * kM * kN + 2 * (kM + kN) + 32 <= registers_per_thread(kThreads, 1),
                "a thread's sums and some 32 registers of addresses must fit");
};

template <typename S>
struct PrefillShared {
  float* query;              // [kDim][kPrefillQueries]
  float* probabilities;      // [kKeyBlock][kPrefillQueries]: scores, then exp(score - max), not normalised
  float* part_max;           // [kParts][kPrefillQueries]
  float *a, *b, *sum;        // [kPrefillQueries]: the merge of a block, and the final sum
  int* ends;                 // [kPrefillQueries]: one past the last key a query sees; 0: there is no such query
  typename S::Bits* stages;  // [kStages][kSlice]

  __device__ explicit PrefillShared(unsigned char* memory) {
    query = reinterpret_cast<float*>(memory);
    probabilities = query + S::kDim * kPrefillQueries;
    part_max = probabilities + kKeyBlock * kPrefillQueries;
    a = part_max + S::kParts * kPrefillQueries;
    b = a + kPrefillQueries;
    sum = b + kPrefillQueries;
    ends = reinterpret_cast<int*>(sum + kPrefillQueries);
    stages = reinterpret_cast<typename S::Bits*>(ends + kPrefillQueries);
  }
};

// The rows of a chunk that a CTA owns. Query i is head i % heads.count of row i / heads.count.
struct PrefillTile {
  int first_row, rows, sequence;
  KeyRange keys;  // that any of its rows sees
  HeadSet heads;

  __device__ int row_of(int query) const { return first_row + query / heads.count; }
  __device__ int head_of(int query) const { return heads.first + query % heads.count; }
};

// Brings slice after slice into shared memory, in the order of their use.
template <typename S>
struct SliceQueue {
  const AttentionParams& p;
  const PrefillTile& tile;
  typename S::Bits* stages;
  int key_slices, last_block;
  int block, slice = 0, stage = 0;  // of the next fetch
  int use = 0;                      // the stage of the next use
  BlockPages pages;

  __device__ SliceQueue(const AttentionParams& params, const PrefillTile& owner, typename S::Bits* memory)
      : p(params), tile(owner), stages(memory) {
    key_slices = (p.kv.head_dim + S::kSliceDims - 1) / S::kSliceDims;
    block = tile.keys.first_block();
    last_block = block + tile.keys.blocks() - 1;
    pages.load(p, tile.sequence, block, tile.keys);
    for (int i = 0; i < S::kStages - 1; ++i) fetch();
  }

  // Waits for the next slice and sends for the one that takes the place of the last.
  __device__ const typename S::Bits* next() {
    ptx::cp_async_wait_group<S::kStages - 2>();
    __syncthreads();
    fetch();
    const typename S::Bits* slice_memory = stages + use * S::kSlice;
    use = use + 1 == S::kStages ? 0 : use + 1;
    return slice_memory;
  }

 private:
  __device__ void fetch() {
    if (block <= last_block) {
      if (slice < key_slices)
        fetch_keys(slice * S::kSliceDims, stages + stage * S::kSlice);
      else
        fetch_values((slice - key_slices) * S::kSliceKeys, stages + stage * S::kSlice);
      if (++slice == key_slices + S::kValueSlices) {
        slice = 0;
        if (++block <= last_block) pages.load(p, tile.sequence, block, tile.keys);
      }
      stage = stage + 1 == S::kStages ? 0 : stage + 1;
    }
    ptx::cp_async_commit_group();
  }

  __device__ void fetch_keys(int first_d, typename S::Bits* to) const {
    constexpr int kVectors = kKeyBlock / S::kPerVector;
    const int key = threadIdx.x % kVectors * S::kPerVector;
    const int position = block * kKeyBlock + key;
    const bool seen = position < tile.keys.end && position + S::kPerVector > tile.keys.begin;
    const auto* keys = static_cast<const typename S::Bits*>(p.kv.keys);
    const auto* from = keys + p.kv.head_offset(pages.of(key), tile.heads.kv_head) + (position & (p.kv.page_size() - 1));
#pragma unroll
    for (int i = 0; i < S::kSliceVectors; ++i) {
      const int d = threadIdx.x / kVectors + i * (S::kThreads / kVectors);
      const bool has = seen && first_d + d < p.kv.head_dim;
      const auto* vector = from + (static_cast<std::int64_t>(first_d + d) << p.kv.page_shift);
      ptx::cp_async_or_zero(to + d * kKeyBlock + key, has ? vector : keys, has);
    }
  }

  __device__ void fetch_values(int first_key, typename S::Bits* to) const {
    constexpr int kVectors = S::kDim / S::kPerVector;
    const int d = threadIdx.x % kVectors * S::kPerVector;
    const auto* values = static_cast<const typename S::Bits*>(p.kv.values);
#pragma unroll
    for (int i = 0; i < S::kSliceVectors; ++i) {
      const int key = threadIdx.x / kVectors + i * (S::kThreads / kVectors);
      const int position = block * kKeyBlock + first_key + key;
      const bool has = position >= tile.keys.begin && position < tile.keys.end && d < p.kv.head_dim;
      const std::int64_t slot = position & (p.kv.page_size() - 1);
      const auto* vector =
          values + p.kv.head_offset(pages.of(first_key + key), tile.heads.kv_head) + slot * p.kv.head_dim + d;
      ptx::cp_async_or_zero(to + key * S::kDim + d, has ? vector : values, has);
    }
  }
};

}  // namespace reprofuse::cuda::fma1::ops
