// Direct decode: a CTA owns one row and one set of heads, and some of the row's key blocks. Keys and values stream
// through shared memory with cp.async, the keys of the next key block while the values of this one are summed. For the
// scores a lane is a key, for the weighted sums it is an element of the head: no reduction crosses lanes.
#pragma once

#include "kernels/cuda/attention/common.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/ptx/sm90.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::ops {

template <typename Kv_, HeadShape kShape>
struct Decode {
  using Kv = Kv_;
  using Bits = typename Kv::Bits;
  static constexpr int kHeads = kShape.heads, kHeadDim = kShape.head_dim;
  static constexpr int kPerVector = 16 / sizeof(Bits);
  static constexpr int kKeyVectors = kKeyBlock / kPerVector;  // of one element of the head
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
  static_assert(fits_shared(decode_shared_bytes(kHeadDim == 0 ? kMaxHeadDim : kHeadDim, kHeads, sizeof(Bits), true), 1,
                            kMinSmSharedBytes),
                "every device must have room for a CTA whose keys and values take turns");

  __device__ static int head_dim(const AttentionParams& p) { return kHeadDim == 0 ? p.kv.head_dim : kHeadDim; }
};

// The shared memory of a CTA; decode_shared_bytes() counts it.
template <typename S>
struct DecodeShared {
  typename S::Bits* keys;    // [head_dim][kKeyBlock]
  typename S::Bits* values;  // [kKeyBlock][head_dim]
  float* query;              // [kHeads][head_dim]
  float* probabilities;      // [kHeads][kKeyBlock]: scores, then exp(score - max), not normalized
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

// Prefetches the keys and values of a key block into the L2, where the kernels that still run write the newest of them.
// For pages of one key block at most, which lie in one piece.
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

// Scores of the key block's keys: one chain over d each.
template <typename S>
__device__ inline void score_keys(const AttentionParams& p, const DecodeWork& at, const DecodeShared<S>& shared,
                                  int block) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int key = warp % 2 * kWarp + lane, first_head = warp / 2;
  if (first_head >= at.heads.count) return;
  float dot[S::kScoreHeads] = {};
#pragma unroll 8
  for (int d = 0; d < S::head_dim(p); d += 4) {
    float k[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) k[e] = S::Kv::widen(shared.keys[(d + e) * kKeyBlock + key]);
#pragma unroll
    for (int i = 0; i < S::kScoreHeads; ++i) {
      const int head = first_head + 2 * i;
      if (head >= S::kHeads) continue;
      const float4 q = *reinterpret_cast<const float4*>(shared.query + head * S::head_dim(p) + d);
      dot[i] = fma_rn(q.x, k[0], dot[i]);
      dot[i] = fma_rn(q.y, k[1], dot[i]);
      dot[i] = fma_rn(q.z, k[2], dot[i]);
      dot[i] = fma_rn(q.w, k[3], dot[i]);
    }
  }
  const bool seen = at.range.has(block * kKeyBlock + key);
#pragma unroll
  for (int i = 0; i < S::kScoreHeads; ++i) {
    const int head = first_head + 2 * i;
    if (head >= at.heads.count) continue;
    const float score = __fmul_rn(dot[i], p.scale);
    if (seen) record_if_not_finite(p.record, p.op, at.row, at.heads.first + head, score);
    shared.probabilities[head * kKeyBlock + key] = seen ? score : masked_score();
  }
}

// Scores become probabilities, up to the sum that divides them in the end; a warp takes every fourth head.
template <typename S>
__device__ inline void exponentiate_scores(const DecodeWork& at, const DecodeShared<S>& shared) {
  const int lane = threadIdx.x % kWarp;
  for (int head = threadIdx.x / kWarp; head < at.heads.count; head += kDecodeThreads / kWarp) {
    float* probabilities = shared.probabilities + head * kKeyBlock;
    const float first = probabilities[lane], second = probabilities[lane + kWarp];
    float max = fmaxf(first, second);
#pragma unroll
    for (int step = kWarp / 2; step >= 1; step /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
    probabilities[lane] = first == masked_score() ? 0.0f : exp_nonpositive_f32(__fsub_rn(first, max));
    probabilities[lane + kWarp] = second == masked_score() ? 0.0f : exp_nonpositive_f32(__fsub_rn(second, max));
    if (lane == 0) shared.max[head] = max;
  }
}

// A thread's sums over keys: elements d, d + kDecodeThreads of heads first_head, first_head + kHeadStep, ...
template <typename S>
struct DecodeSums {
  float weighted[S::kSumHeads][S::kDims], sum[S::kSumHeads], max[S::kSumHeads];

  __device__ static int first_head() { return S::kHeadStep == 1 ? 0 : threadIdx.x / S::kHeadDim; }
  __device__ static int first_dim() { return S::kHeadStep == 1 ? threadIdx.x : threadIdx.x % S::kHeadDim; }

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      sum[i] = 0.0f;
      max[i] = masked_score();
#pragma unroll
      for (int j = 0; j < S::kDims; ++j) weighted[i][j] = 0.0f;
    }
  }

  // Chains in ascending key order. Keys that are not seen have the probability 0 and the value 0.
  __device__ void add_block(const AttentionParams& p, const DecodeShared<S>& shared) {
    clear();
    const int head_dim = S::head_dim(p);
#pragma unroll 4
    for (int key = 0; key < kKeyBlock; key += 4) {
      float v[S::kDims][4];
#pragma unroll
      for (int j = 0; j < S::kDims; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int d = S::kHeadDim > 0 ? first_dim() : min(first_dim() + j * kDecodeThreads, head_dim - 1);
          v[j][e] = S::Kv::widen(shared.values[(key + e) * head_dim + d]);
        }
#pragma unroll
      for (int i = 0; i < S::kSumHeads; ++i) {
        const int head = first_head() + i * S::kHeadStep;
        if (head >= S::kHeads) continue;
        const float4 p4 = *reinterpret_cast<const float4*>(shared.probabilities + head * kKeyBlock + key);
        const float probability[4] = {p4.x, p4.y, p4.z, p4.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum[i] = __fadd_rn(sum[i], probability[e]);
#pragma unroll
          for (int j = 0; j < S::kDims; ++j) weighted[i][j] = fma_rn(probability[e], v[j][e], weighted[i][j]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      const int head = first_head() + i * S::kHeadStep;
      if (head < S::kHeads) max[i] = shared.max[head];
    }
  }

  __device__ void merge(const DecodeSums& next) {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      const Rescale rescale(max[i], next.max[i]);
      max[i] = rescale.max;
      sum[i] = rescale.merged(sum[i], next.sum[i]);
#pragma unroll
      for (int j = 0; j < S::kDims; ++j) weighted[i][j] = rescale.merged(weighted[i][j], next.weighted[i][j]);
    }
  }

  // Calls store(head, i, d, j) for each element that the thread owns.
  template <typename Store>
  __device__ void for_each(const AttentionParams& p, const HeadSet& heads, const Store& store) const {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) {
      const int head = first_head() + i * S::kHeadStep;
      if (head >= heads.count) continue;
#pragma unroll
      for (int j = 0; j < S::kDims; ++j) {
        const int d = first_dim() + j * kDecodeThreads;
        if (d < S::head_dim(p)) store(heads.first + head, i, d, j);
      }
    }
  }

  __device__ void store_partial(const AttentionParams& p, const DecodeWork& at, int block) const {
    for_each(p, at.heads, [&](int head, int i, int d, int j) {
      const std::int64_t partial = at.partial(p, head, block);
      p.weighted[partial * S::head_dim(p) + d] = weighted[i][j];
      if (d == 0) p.max_and_sum[partial] = make_float2(max[i], sum[i]);
    });
  }

  __device__ void store_result(const AttentionParams& p, const DecodeWork& at) const {
    for_each(p, at.heads, [&](int head, int i, int d, int j) {
      p.out[at.row * p.out_stride + head * S::head_dim(p) + d] = finished(weighted[i][j], sum[i]);
    });
  }
};

template <typename S>
__device__ inline void load_query(const AttentionParams& p, const DecodeWork& at, float* to) {
  const float* from = p.q + at.row * p.q_stride + at.heads.first * S::head_dim(p);
  for (int i = threadIdx.x; i < S::kHeads * S::head_dim(p); i += kDecodeThreads)
    to[i] = i < at.heads.count * S::head_dim(p) ? from[i] : 0.0f;  // the heads of a set lie side by side
}

// Bits: equal reference::attention, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(kDecodeThreads) void attention_decode(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  const DecodeWork at(p);

  // Prologue: keys, values and queries of the first key block
  BlockPages pages;
  if (at.has_work()) pages.load(p, at.sequence, at.first_block + blockIdx.x, at.range);
  if (at.has_work() && p.prefetch) prefetch_block<S>(p, at, pages, at.first_block + blockIdx.x);
  wait_for_previous_kernel();
  if (!at.has_work()) return;
  const DecodeShared<S> shared(memory, p);
  fetch_keys<S>(p, at, pages, at.first_block + blockIdx.x, shared.keys);
  ptx::cp_async_commit_group();
  if (!p.one_buffer) fetch_values<S>(p, at, pages, at.first_block + blockIdx.x, shared.values);
  ptx::cp_async_commit_group();
  load_query<S>(p, at, shared.query);

  // Main loop over key blocks: scores, probabilities, weighted sums
  DecodeSums<S> total, next;
  total.clear();
  for (int i = blockIdx.x; i < at.key_blocks; i += p.splits) {
    const int block = at.first_block + i;
    const bool more = i + p.splits < at.key_blocks;
    ptx::cp_async_wait_group<1>();  // for the keys
    __syncthreads();
    score_keys<S>(p, at, shared, block);
    __syncthreads();
    if (p.one_buffer) fetch_values<S>(p, at, pages, block, shared.values);
    if (more) pages.load(p, at.sequence, block + p.splits, at.range);
    if (more && !p.one_buffer) fetch_keys<S>(p, at, pages, block + p.splits, shared.keys);
    ptx::cp_async_commit_group();
    exponentiate_scores<S>(at, shared);
    if (p.one_buffer)
      ptx::cp_async_wait_group<0>();
    else
      ptx::cp_async_wait_group<1>();  // for the values
    __syncthreads();
    next.add_block(p, shared);
    if (p.splits == 1)
      total.merge(next);
    else
      next.store_partial(p, at, i);
    __syncthreads();
    if (more && p.one_buffer) fetch_keys<S>(p, at, pages, block + p.splits, shared.keys);
    if (more && !p.one_buffer) fetch_values<S>(p, at, pages, block + p.splits, shared.values);
    if (p.one_buffer) ptx::cp_async_commit_group();  // the keys come first in either case
    ptx::cp_async_commit_group();
  }

  // Epilogue
  if (p.splits == 1) total.store_result(p, at);
}

template <typename Kv, int kHeads>
const void* decode_kernel_of_heads(int head_dim) {
  if (head_dim == 128)
    return reinterpret_cast<const void*>(&attention_decode<Decode<Kv, HeadShape{.heads = kHeads, .head_dim = 128}>>);
  if (head_dim == 64)
    return reinterpret_cast<const void*>(&attention_decode<Decode<Kv, HeadShape{.heads = kHeads, .head_dim = 64}>>);
  return reinterpret_cast<const void*>(&attention_decode<Decode<Kv, HeadShape{.heads = kHeads, .head_dim = 0}>>);
}

// decode_shared_bytes() knows these steps.
template <typename Kv>
const void* decode_kernel(int head_dim, int set_heads) {
  if (set_heads <= 2) return decode_kernel_of_heads<Kv, 2>(head_dim);
  if (set_heads <= 4) return decode_kernel_of_heads<Kv, 4>(head_dim);  // a kernel of three heads is slower
  return decode_kernel_of_heads<Kv, kMaxSetHeads>(head_dim);
}

}  // namespace reprofuse::cuda::ops
