// Attention of up to eight queries by contract int16-1: what its kernels share. Queries are rows of a matrix product,
// their high digits rows 0 to 7 and their low ones 8 to 15, so that a thread has all that makes a score. For the scores
// a warp has 32 keys of the block, for the weighted sums a quarter of the elements.
#pragma once

#include "kernels/cuda/attention/int16/fold.cuh"
#include "kernels/cuda/attention/int16/pages.hpp"

namespace reprofuse::cuda::int16::ops {

inline constexpr int kWarps = kRowsThreads / kWarp;
inline constexpr int kWarpKeys = kKeyBlock / kWarps, kTiles = kWarpKeys / kCoreRows;  // of keys, 8 each
inline constexpr int kGroups = kKeyBlock / kKeyGroup;  // of keys whose values lie together
inline constexpr int kPieceDims = 64;                  // elements of a head that a load of 16 bytes in each lane covers
inline constexpr int kQueryPitch = kMaxHeadDim + 16;
inline constexpr int kWeightPitch = kKeyBlock + 16;  // rows in different banks
static_assert(kRowsQueries == 8 && kTiles == 4 && kGroups == 8);

// What the queries of a CTA have in common. A query's own place is a QueryRow.
struct QueryGroup {
  int sequence, kv_head;
  int begin, end;  // of the keys that some query sees
};

struct QueryRow {
  int row, head;  // of the call
  bool exists;
  KeyRange range;
};

// kHeadDim = 0: any, without loads ahead of their use.
template <int kHeadDim_>
struct RowsShape {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kPieces = kHeadDim == 0 ? 1 : kHeadDim / kPieceDims;
  static constexpr int kDimGroups = (kHeadDim == 0 ? kMaxHeadDim : kHeadDim) / kCoreRows / kWarps;  // of a warp
  static constexpr bool kAhead = kHeadDim > 0;
  __device__ static int head_dim(const AttentionParams& p) { return kHeadDim == 0 ? p.kv.head_dim : kHeadDim; }
};

struct Shared {
  alignas(16) std::int8_t query[2][kRowsQueries][kQueryPitch];      // digits
  alignas(16) std::uint8_t weights[2][kRowsQueries][kWeightPitch];  // digits, in the order of values
  float factor[kRowsQueries];
  float max[kWarps][kRowsQueries];
  int sum[kWarps][kRowsQueries];
  int unit[kWarps][kRowsQueries];
};

// sums[16, 8] += a[16, 32] * b[32, 8], signed bytes.
__device__ inline void mma(int (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
                           std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// high * high + what is left of high * low + low * high.
__device__ inline int combined(const int (&by_high)[4], const int (&by_low)[4], int e) {
  return by_high[e] * 256 + by_high[2 + e] + by_low[e];
}

// The digits of the queries, with zeros beyond the last of them and the last element. `row_of` tells the QueryRow.
template <typename S, typename RowOf>
__device__ inline void snap_queries(const AttentionParams& p, const RowOf& row_of, Shared& shared) {
  const int lane = threadIdx.x % kWarp, head_dim = S::head_dim(p);
  for (int query = threadIdx.x / kWarp; query < kRowsQueries; query += kWarps) {
    const QueryRow own = row_of(query);
    const float* from = p.q + own.row * p.q_stride + own.head * head_dim;
    std::uint32_t largest = 0;
    for (int d = lane; own.exists && d < head_dim; d += kWarp)
      largest = max(largest, __float_as_uint(from[d]) & 0x7fffffffu);
    const int unit = reprofuse::int16::unit_byte(__reduce_max_sync(~0u, largest));
    const float inverse = reprofuse::int16::inverse_unit(unit);
    for (int d = lane; d < kMaxHeadDim; d += kWarp) {
      const bool finite = own.exists && d < head_dim && unit != reprofuse::int16::kNotFinite;
      const int x = finite ? reprofuse::int16::snap(from[d], inverse) : 0;
      shared.query[0][query][d] = static_cast<std::int8_t>(reprofuse::int16::high_digit(x));
      shared.query[1][query][d] = static_cast<std::int8_t>(reprofuse::int16::low_digit(x));
    }
    if (lane == 0) shared.factor[query] = own.exists ? reprofuse::int16::score_factor(p.scale, unit) : 0.0f;
  }
}

// The scores of a thread: one query, two neighbouring keys of each tile.
struct Scores {
  float score[kTiles][2];
  int unit[kTiles][2];  // of the values; 0 where the query does not see the key

  // From the sums of two neighbouring keys, the first at `position`.
  __device__ void set(const AttentionParams& p, const QueryRow& row, float factor, int tile, int position,
                      const int (&by_high)[4], const int (&by_low)[4], uchar2 key_units, uchar2 value_units) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool seen = row.exists && row.range.has(position + e);
      const float sum = __int2float_rn(combined(by_high, by_low, e));
      const float key_unit = reprofuse::int16::unit_value(e == 0 ? key_units.x : key_units.y);
      const float value = __fmul_rn(__fmul_rn(sum, key_unit), factor);
      if (seen) record_if_not_finite(p.record, p.op, row.row, row.head, value);
      score[tile][e] = seen ? value : masked_score();
      unit[tile][e] = seen ? (e == 0 ? value_units.x : value_units.y) : 0;
    }
  }
};

// What a block comes to beside its weighted sums, for the thread's query. One that sees no key has the maximum -inf.
struct QuerySoftmax {
  float max, sum, scale;
};

// Scores become the digits of weights, in shared memory. Threads of a warp, and then warps, agree on the maximum;
// `sync` is a barrier of the four warps.
template <typename Sync>
__device__ inline QuerySoftmax weigh_keys(const Scores& own, Shared& shared, const Sync& sync) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, query = lane / 4;
  float largest = masked_score();
  int largest_unit = reprofuse::int16::kMinUnit;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      largest = fmaxf(largest, own.score[tile][e]);
      largest_unit = max(largest_unit, own.unit[tile][e]);
    }
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    largest_unit = max(largest_unit, __shfl_xor_sync(~0u, largest_unit, step));
  }
  if (lane % 4 == 0) {
    shared.max[warp][query] = largest;
    shared.unit[warp][query] = largest_unit;
  }
  sync();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    largest = fmaxf(largest, shared.max[w][query]);
    largest_unit = max(largest_unit, shared.unit[w][query]);
  }
  int sum = 0;
#pragma unroll
  for (int pair = 0; pair < kTiles / 2; ++pair) {
    std::uint32_t high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = pair * 2 + i / 2, e = i % 2;
      const float score = own.score[tile][e];
      const float p = reprofuse::int16::exp2_nonpositive(__fsub_rn(score, largest));
      const float factor = reprofuse::int16::weight_factor(own.unit[tile][e], largest_unit);
      const bool seen = own.unit[tile][e] != 0;
      const int weight = seen ? reprofuse::int16::weight_of(p, factor) : 0;
      sum += seen ? reprofuse::int16::sum_term(p) : 0;
      high |= (static_cast<std::uint32_t>(reprofuse::int16::high_digit(weight)) & 255u) << 8 * i;
      low |= (static_cast<std::uint32_t>(weight) & 255u) << 8 * i;
    }
    const int place = (warp * 2 + pair) * kKeyGroup + lane % 4 * 4;  // place_in_group() of the four
    *reinterpret_cast<std::uint32_t*>(&shared.weights[0][query][place]) = high;
    *reinterpret_cast<std::uint32_t*>(&shared.weights[1][query][place]) = low;
  }
#pragma unroll
  for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane % 4 == 0) shared.sum[warp][query] = sum;
  sync();
  int whole = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) whole += shared.sum[w][query];
  return {largest, sum_value(whole), reprofuse::int16::value_scale(largest_unit)};
}

// A thread's totals: one query, two neighbouring elements of each of its warp's groups of eight.
template <typename S>
struct Totals {
  float weighted[S::kDimGroups][2] = {};
  float max = masked_score(), sum = 0.0f;

  __device__ static int group(int i) {
    return S::kAhead ? threadIdx.x / kWarp * S::kDimGroups + i : threadIdx.x / kWarp + i * kWarps;
  }
  __device__ static int first_element(int i) { return group(i) * kCoreRows + threadIdx.x % 4 * 2; }

  // What the next block's weighted sums are folded by; maximum and sum are merged already.
  struct Factors {
    float a, b;
  };
  __device__ Factors fold_head(const QuerySoftmax& next) {
    if (next.max == masked_score()) return {1.0f, 0.0f};  // the query sees no key of the block
    const Rescale rescale(max, next.max, next.scale);
    sum = rescale.merged_sum(sum, next.sum);
    max = rescale.max;
    return {rescale.a, rescale.b};
  }
  __device__ void fold(const Factors& by, int i, float2 sums) {
    weighted[i][0] = fma_rn(weighted[i][0], by.a, __fmul_rn(sums.x, by.b));
    weighted[i][1] = fma_rn(weighted[i][1], by.a, __fmul_rn(sums.y, by.b));
  }
};

// A decode row's partial of one block: its weighted sums are stored as they come.
struct Partial {
  std::int64_t index;
  bool exists;

  __device__ Partial(const AttentionParams& p, const DecodeWork& at, const QueryRow& row, int block)
      : index(at.partial(p, row.head, block - at.first_block)), exists(row.exists) {}
  template <typename S>
  __device__ void store(const AttentionParams& p, int i, float2 sums) const {
    if (exists) *reinterpret_cast<float2*>(p.weighted + index * S::head_dim(p) + Totals<S>::first_element(i)) = sums;
  }
  __device__ void store_head(const AttentionParams& p, const QuerySoftmax& softmax) const {
    if (!exists || threadIdx.x >= kWarp || threadIdx.x % 4 != 0) return;
    p.max_and_sum[index] = make_float2(softmax.max, softmax.sum);
    p.scales[index] = softmax.scale;
  }
};

// The queries of a decode row: the heads of a set.
struct DecodeQueries {
  const DecodeWork& at;
  __device__ QueryRow operator()(int query) const {
    return {at.row, at.heads.first + min(query, at.heads.count - 1), query < at.heads.count, at.range};
  }
};

__device__ inline int own_query() {
  return static_cast<int>(threadIdx.x % kWarp / 4);
}

template <typename S>
__device__ inline void store_result(const AttentionParams& p, const QueryRow& row, const Totals<S>& total) {
  const int head_dim = S::head_dim(p);
  if (!row.exists) return;
  float* out = p.out + row.row * p.out_stride + row.head * head_dim;
#pragma unroll
  for (int i = 0; i < S::kDimGroups; ++i) {
    if (!S::kAhead && Totals<S>::group(i) >= head_dim / kCoreRows) break;
#pragma unroll
    for (int e = 0; e < 2; ++e)
      out[Totals<S>::first_element(i) + e] = fma1::ops::finished(total.weighted[i][e], total.sum);
  }
}

}  // namespace reprofuse::cuda::int16::ops
