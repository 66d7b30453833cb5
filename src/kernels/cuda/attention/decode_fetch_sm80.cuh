// Decode by threads: what a CTA owns, its shared memory, and how keys and values get there.
#pragma once

#include "kernels/cuda/attention/common.cuh"
#include "kernels/cuda/ptx/copy.cuh"

namespace reprofuse::cuda::fma1::ops {

template <typename Kv_, HeadShape kShape>
struct Decode {
  using Kv = Kv_;
  using Bits = typename Kv::Bits;
  static constexpr int kHeads = kShape.heads, kHeadDim = kShape.head_dim;
  static constexpr int kPerVector = 16 / sizeof(Bits);
  static constexpr int kKeyVectors =
      kKeyBlock / kPerVector;  // of one element of the head, over the keys of a key block
  // Scores: a warp has one half of the keys and every second head.
  static constexpr int kScoreHeads = (kHeads + 1) / 2;
  // Sums: a thread has kDims elements and every kHeadStep-th head.
  static constexpr int kDims = kHeadDim == 0 ? kMaxHeadDim / kDecodeThreads : 1;
  static constexpr int kHeadStep = kHeadDim == 64 ? 2 : 1;
  static constexpr int kSumHeads = (kHeads + kHeadStep - 1) / kHeadStep;
  static_assert(kDecodeThreads == 4 * kWarp, "two warps for the keys, and as many for every second head");
  static_assert(kDecodeThreads % kKeyVectors == 0, "a thread stays with its keys");
  // Totals and the sums of a key block, each with its maximum; four values of each element; four probabilities.
  static_assert(
      2 * kSumHeads * (kDims + 2) + 4 * kDims + 4 + 40 <= registers_per_thread(kDecodeThreads, kDecodeCtasPerSm),
      "a thread's sums and some 40 registers of addresses must fit what kDecodeCtasPerSm CTAs leave a thread");

  __device__ static int head_dim(const AttentionParams& p) { return kHeadDim == 0 ? p.kv.head_dim : kHeadDim; }
};

// The shared memory of a CTA; decode_shared_bytes() counts it.
template <typename S>
struct DecodeShared {
  typename S::Bits* keys;    // [head_dim][kKeyBlock]
  typename S::Bits* values;  // [kKeyBlock][head_dim]
  float* query;              // [kHeads][head_dim]
  float* probabilities;      // [kHeads][kKeyBlock]: scores, then exp(score - max), not normalised
  float* max;                // [kHeads]

  __device__ DecodeShared(unsigned char* memory, const AttentionParams& p) {
    const int tile = kKeyBlock * S::head_dim(p);
    keys = reinterpret_cast<typename S::Bits*>(memory);
    values = p.one_buffer ? keys : keys + tile;
    query = reinterpret_cast<float*>(values + tile);
    probabilities = query + S::kHeads * S::head_dim(p);
    max = probabilities + S::kHeads * kKeyBlock;
  }
};

// Brings the keys and values of a key block into the L2, where the kernels that still run write the newest of them:
// nothing is read yet. For pages of one key block at most, which lie in one piece.
template <typename S>
__device__ inline void prefetch_block(const AttentionParams& p, const DecodeWork& at, const BlockPages& pages,
                                      int block) {
#if __CUDA_ARCH__ >= 900
  const int key = threadIdx.x * kMinPageSize, position = block * kKeyBlock + key;
  if (p.kv.page_size() > kKeyBlock || key >= kKeyBlock || key % p.kv.page_size() != 0) return;
  if (position >= at.range.end || position + kMinPageSize <= at.range.begin) return;  // its page was not looked up
  const std::int64_t first = p.kv.head_offset(pages.own(), at.heads.kv_head);
  const unsigned bytes = static_cast<unsigned>(S::head_dim(p) * sizeof(typename S::Bits)) << p.kv.page_shift;
  for (const void* cache : {p.kv.keys, p.kv.values})
    ptx::tma_prefetch_bulk(static_cast<const typename S::Bits*>(cache) + first, bytes);
#endif
}

// Keys of the key block that the row does not see stay what they were; their scores are masked.
template <typename S>
__device__ inline void fetch_keys(const AttentionParams& p, const DecodeWork& at, const BlockPages& pages, int block,
                                  typename S::Bits* to) {
  const int key = threadIdx.x % S::kKeyVectors * S::kPerVector;
  const int position = block * kKeyBlock + key;
  const int page = pages.of(key);
  if (position >= at.range.end || position + S::kPerVector <= at.range.begin) return;
  const auto* from = static_cast<const typename S::Bits*>(p.kv.keys) + p.kv.head_offset(page, at.heads.kv_head) +
                     (position & (p.kv.page_size() - 1));
#pragma unroll 16
  for (int d = threadIdx.x / S::kKeyVectors; d < S::head_dim(p); d += kDecodeThreads / S::kKeyVectors)
    ptx::cp_async(to + d * kKeyBlock + key, from + (static_cast<std::int64_t>(d) << p.kv.page_shift));
}

// Values that the row does not see become 0: their probability is 0, and 0 times what lies there might be a NaN.
template <typename S>
__device__ inline void fetch_values(const AttentionParams& p, const DecodeWork& at, const BlockPages& pages, int block,
                                    typename S::Bits* to) {
  const int vectors = S::head_dim(p) / S::kPerVector;
  const auto* values = static_cast<const typename S::Bits*>(p.kv.values);
  // A head has an even number of vectors, so the threads come out even.
#pragma unroll 16
  for (int i = 0; i < kKeyBlock * vectors; i += kDecodeThreads) {
    const int vector = i + threadIdx.x;
    const int key = vector / vectors, d = vector % vectors * S::kPerVector;
    const int position = block * kKeyBlock + key;
    const int page = pages.of(key);
    const std::int64_t slot = position & (p.kv.page_size() - 1);
    const auto* from = values + p.kv.head_offset(page, at.heads.kv_head) + slot * S::head_dim(p) + d;
    const bool seen = at.range.has(position);
    ptx::cp_async_or_zero(to + key * S::head_dim(p) + d, seen ? from : values, seen);
  }
}

}  // namespace reprofuse::cuda::fma1::ops
