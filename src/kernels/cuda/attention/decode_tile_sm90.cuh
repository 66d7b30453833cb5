// Decode by the TMA, on compute capability 9.0 and later: a key block of a row comes to shared memory as two tiles,
// keys and values, each in one piece because a page is a key block. Here is what is computed of them; who loads them,
// and who folds the results, differs from kernel to kernel.
#pragma once

#include "kernels/cuda/attention/common.cuh"

namespace reprofuse::cuda::ops {

// Shared memory takes as long for a value that all lanes read as for one that each reads apart, so a thread has two
// keys, or two elements, for each probability or query that it reads.
template <typename Kv_, HeadShape kShape>
struct DecodeTile {
  using Kv = Kv_;
  using Bits = typename Kv::Bits;
  static constexpr int kHeads = kShape.heads, kHeadDim = kShape.head_dim;
  static constexpr int kTile = kKeyBlock * kHeadDim;  // keys: [kHeadDim][kKeyBlock], values: [kKeyBlock][kHeadDim]
  static constexpr std::uint32_t kTileBytes = kTile * sizeof(Bits);
  // Scores: a warp has all keys and two heads.
  static constexpr int kScoreWarps = (kHeads + 1) / 2;
  // Sums of values: a thread has two elements and up to four heads.
  static constexpr int kSumHeads = kHeads < 4 ? kHeads : 4;
  static constexpr int kSumWarps = kHeadDim / 2 * (kHeads / kSumHeads) / kWarp;
  static constexpr int kSumThreads = kSumWarps * kWarp;
  static_assert(kHeads % kSumHeads == 0, "threads have as many heads each");
  static_assert(kSumThreads == kHeadDim / 2 * (kHeads / kSumHeads), "sums are shared out over whole warps");
  static constexpr int kProbabilityStride = kKeyBlock + 4;  // no bank conflicts between neighbouring heads
};

// The probabilities of one key block, in shared memory, before the sum divides them.
template <typename S>
struct Probabilities {
  float* values;  // [kHeads][kProbabilityStride]: exp(score - max)
  float* max;     // [kHeads]

  __device__ float* of(int head) const { return values + head * S::kProbabilityStride; }

  // Summed in ascending key order.
  __device__ float sum(int head) const {
    float sum = 0.0f;
#pragma unroll
    for (int key = 0; key < kKeyBlock; key += 4) {
      const float4 four = *reinterpret_cast<const float4*>(of(head) + key);
      sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, four.x), four.y), four.z), four.w);
    }
    return sum;
  }
};

// Scores of all keys, one chain over d each, become probabilities. A warp has two heads, a lane two keys; an odd last
// head is computed twice. `query` is [kHeads][kHeadDim].
template <typename S>
__device__ inline void score_tile(const AttentionParams& p, const DecodeWork& at, int first_key, int warp,
                                  const float* query, const typename S::Bits* keys, const Probabilities<S>& to) {
  const int key = threadIdx.x % kWarp * 2;
  const int heads[2] = {2 * warp, min(2 * warp + 1, S::kHeads - 1)};
  float score[2][2] = {};  // [head][key]
#pragma unroll 8
  for (int d = 0; d < S::kHeadDim; d += 4) {
    const float4 q0 = *reinterpret_cast<const float4*>(query + heads[0] * S::kHeadDim + d);
    const float4 q1 = *reinterpret_cast<const float4*>(query + heads[1] * S::kHeadDim + d);
    const float q[2][4] = {{q0.x, q0.y, q0.z, q0.w}, {q1.x, q1.y, q1.z, q1.w}};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 k = widen2<typename S::Kv>(keys + (d + e) * kKeyBlock + key);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        score[i][0] = fma_rn(q[i][e], k.x, score[i][0]);
        score[i][1] = fma_rn(q[i][e], k.y, score[i][1]);
      }
    }
  }
  const bool seen[2] = {at.range.has(first_key + key), at.range.has(first_key + key + 1)};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int head = heads[i];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      score[i][j] = __fmul_rn(score[i][j], p.scale);
      if (seen[j] && head < at.heads.count)
        record_if_not_finite(p.record, p.op, at.row, at.heads.first + head, score[i][j]);
      if (!seen[j]) score[i][j] = masked_score();
    }
    const float max = max_of_warp(fmaxf(score[i][0], score[i][1]));
    float2 probabilities;
    probabilities.x = seen[0] ? exp_nonpositive_f32(__fsub_rn(score[i][0], max)) : 0.0f;
    probabilities.y = seen[1] ? exp_nonpositive_f32(__fsub_rn(score[i][1], max)) : 0.0f;
    *reinterpret_cast<float2*>(to.of(head) + key) = probabilities;
    if (key == 0) to.max[head] = max;
  }
}

// What one of kSumThreads threads has of the values: elements d and d + 1 of heads first, first + 1, ...
template <typename S>
struct TileElements {
  int d, first;

  __device__ explicit TileElements(int thread)
      : d(thread % (S::kHeadDim / 2) * 2), first(thread / (S::kHeadDim / 2) * S::kSumHeads) {}

  // Values that the row does not see become 0: their probability is 0, and 0 times what lies there might be a NaN.
  // Threads of other heads write the same zeros to the same places.
  __device__ void clear_unseen(const KeyRange& range, int first_key, typename S::Bits* values) const {
    const auto clear = [&](int key) { values[key * S::kHeadDim + d] = values[key * S::kHeadDim + d + 1] = 0; };
    for (int key = 0; key < range.begin - first_key; ++key) clear(key);
    for (int key = range.end - first_key; key < kKeyBlock; ++key) clear(key);
  }

  // Weighted sums of the values, chains in ascending key order.
  __device__ void sum_values(const typename S::Bits* values, const Probabilities<S>& probabilities,
                             float2 (&weighted)[S::kSumHeads]) const {
#pragma unroll
    for (int i = 0; i < S::kSumHeads; ++i) weighted[i] = make_float2(0.0f, 0.0f);
#pragma unroll 8
    for (int key = 0; key < kKeyBlock; key += 4) {
      float2 v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = widen2<typename S::Kv>(values + (key + e) * S::kHeadDim + d);
#pragma unroll
      for (int i = 0; i < S::kSumHeads; ++i) {
        const float4 p4 = *reinterpret_cast<const float4*>(probabilities.of(first + i) + key);
        const float probability[4] = {p4.x, p4.y, p4.z, p4.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          weighted[i].x = fma_rn(probability[e], v[e].x, weighted[i].x);
          weighted[i].y = fma_rn(probability[e], v[e].y, weighted[i].y);
        }
      }
    }
  }

  // The result of a head of the set. Rows of it may start anywhere: no vectors.
  __device__ void store(const AttentionParams& p, const DecodeWork& at, int head, float2 weighted, float sum) const {
    float* out = p.out + at.row * p.out_stride + (at.heads.first + head) * S::kHeadDim + d;
    out[0] = finished(weighted.x, sum);
    out[1] = finished(weighted.y, sum);
  }
};

// The queries of a CTA, by all of its kThreads threads: all loads are in flight before the first is waited for.
template <typename S, int kThreads>
__device__ inline void load_queries(const AttentionParams& p, const DecodeWork& at, float* to) {
  constexpr int kElements = S::kHeads * S::kHeadDim, kPerThread = ceil_div(kElements, kThreads);
  const float* from = p.q + at.row * p.q_stride + at.heads.first * S::kHeadDim;  // the heads of a set lie side by side
  float query[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int element = i * kThreads + threadIdx.x;
    query[i] = element < at.heads.count * S::kHeadDim ? from[element] : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int element = i * kThreads + threadIdx.x;
    if (element < kElements) to[element] = query[i];
  }
}

// Calls make<Kernel<Kv, shape>>() for the shape that has so many heads of so many elements.
template <template <typename, HeadShape> typename Kernel, typename Kv, typename Make>
AttentionKernel kernel_of_shape(int head_dim, int set_heads, const Make& make) {
  const auto of_heads = [&]<int kHeads>() {
    return head_dim == 128 ? make.template operator()<Kernel<Kv, HeadShape{.heads = kHeads, .head_dim = 128}>>()
                           : make.template operator()<Kernel<Kv, HeadShape{.heads = kHeads, .head_dim = 64}>>();
  };
  if (set_heads <= 2) return of_heads.template operator()<2>();
  if (set_heads == 3) return of_heads.template operator()<3>();
  if (set_heads == 4) return of_heads.template operator()<4>();
  return of_heads.template operator()<kMaxSetHeads>();
}

}  // namespace reprofuse::cuda::ops
