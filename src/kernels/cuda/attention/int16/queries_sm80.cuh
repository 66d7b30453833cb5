// Attention of up to eight queries by contract int16-1, on any device. Digits come from the pages straight into
// registers, the keys of the next block while this one's values are summed. Queries are rows of a matrix product, their
// high digits rows 0 to 7 and their low ones 8 to 15, so that a thread has all that makes a score. For the scores a
// warp has 32 keys of the block, for the weighted sums a quarter of the elements.
#pragma once

#include "kernels/cuda/attention/int16/fold.cuh"
#include "kernels/cuda/attention/int16/pages.hpp"

namespace reprofuse::cuda::int16::ops {

inline constexpr int kWarps = kRowsThreads / kWarp;
inline constexpr int kWarpKeys = kKeyBlock / kWarps, kTiles = kWarpKeys / kCoreRows;  // of keys, 8 each
inline constexpr int kGroups = kKeyBlock / kKeyGroup;  // of keys whose values lie together
inline constexpr int kPieceDims = 64;                  // elements of a head that a load of 16 bytes in each lane covers
inline constexpr int kWeightPitch = kKeyBlock + 16;    // rows in different banks
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
  alignas(16) std::int8_t query[2][kRowsQueries][kMaxHeadDim];      // digits
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

// Both digits of 16 bytes in each lane: two steps of a product. The bytes are terms in an order of their own, the same
// on both sides.
__device__ inline void multiply(int (&by_high)[4], int (&by_low)[4], const uint4& high, const uint4& low,
                                const uint4 (&right)[2]) {
  mma(by_high, high.x, low.x, high.y, low.y, right[0].x, right[0].y);
  mma(by_high, high.z, low.z, high.w, low.w, right[0].z, right[0].w);
  mma(by_low, high.x, low.x, high.y, low.y, right[1].x, right[1].y);
  mma(by_low, high.z, low.z, high.w, low.w, right[1].z, right[1].w);
}

// high * high + what is left of high * low + low * high.
__device__ inline int combined(const int (&by_high)[4], const int (&by_low)[4], int e) {
  return by_high[e] * 256 + by_high[2 + e] + by_low[e];
}

// A key block of one head: where its groups of 16 positions lie.
struct Block {
  int first;     // position
  int own_page;  // lane l: the page of group l % 8; -1: the row sees none of it

  __device__ void find(const AttentionParams& p, const QueryGroup& at, int block) {
    first = block * kKeyBlock;
    const int position = first + threadIdx.x % kGroups * kKeyGroup;
    const bool seen = position < at.end && position + kKeyGroup > at.begin;
    own_page = seen ? p.kv.page_of(at.sequence, position) : -1;
  }
  // Whole warps must ask together.
  __device__ int page(int group) const { return __shfl_sync(~0u, own_page, group); }
};

struct Place {
  std::int64_t head;  // page * kv_heads + head
  int slot;

  __device__ Place(const AttentionParams& p, const QueryGroup& at, int page, int position)
      : head(static_cast<std::int64_t>(page) * p.kv.kv_heads + at.kv_head), slot(position & (p.kv.page_size() - 1)) {}
  __device__ std::int64_t unit(const AttentionParams& p) const { return (head << p.kv.page_shift) + slot; }
  // The first digit of the head's page.
  __device__ const std::uint8_t* page(const void* cache, const AttentionParams& p, int head_dim) const {
    return static_cast<const std::uint8_t*>(cache) + (head * head_dim * 2 << p.kv.page_shift);
  }
};

__device__ inline uint4 load16(const std::uint8_t* from) {
  return __ldcg(reinterpret_cast<const uint4*>(from));
}

// Digits of the warp's keys: element groups of 16 that differ by lane, 64 elements of the head in all.
template <typename S>
__device__ inline void load_keys(const AttentionParams& p, const QueryGroup& at, const Block& block, int piece,
                                 uint4 (&keys)[kTiles][2]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, head_dim = S::head_dim(p);
  const int dims = piece * (kPieceDims / 16) + lane % 4;  // in sixteens
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int key = warp * kWarpKeys + tile * kCoreRows, page = block.page(key / kKeyGroup);
    keys[tile][0] = keys[tile][1] = make_uint4(0, 0, 0, 0);
    if (page < 0 || (!S::kAhead && dims >= head_dim / 16)) continue;
    const Place place(p, at, page, block.first + key);
    const std::uint8_t* from = place.page(p.kv.keys, p, head_dim) +
                               (place.slot / kCoreRows * (head_dim / 16) + dims) * kCoreBytes + lane / 4 * 16;
    keys[tile][0] = load16(from);
    keys[tile][1] = load16(from + (static_cast<std::int64_t>(head_dim) << p.kv.page_shift));
  }
}

// Digits of eight elements' values, of all keys: groups of 16 that differ by lane.
template <typename S>
__device__ inline void load_values(const AttentionParams& p, const QueryGroup& at, const Block& block, int dim_group,
                                   uint4 (&values)[2][2]) {
  const int lane = threadIdx.x % kWarp, head_dim = S::head_dim(p);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int group = half * 4 + lane % 4, page = block.page(group);
    values[half][0] = values[half][1] = make_uint4(0, 0, 0, 0);
    if (page < 0 || (!S::kAhead && dim_group >= head_dim / kCoreRows)) continue;
    const Place place(p, at, page, block.first + group * kKeyGroup);
    const std::uint8_t* from = place.page(p.kv.values, p, head_dim) +
                               (place.slot / kKeyGroup * (head_dim / kCoreRows) + dim_group) * kCoreBytes +
                               lane / 4 * 16;
    values[half][0] = load16(from);
    values[half][1] = load16(from + (static_cast<std::int64_t>(head_dim) << p.kv.page_shift));
  }
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
};

template <typename S>
__device__ inline void score_keys(const AttentionParams& p, const QueryGroup& at, const Block& block,
                                  const QueryRow& row, const Shared& shared, const uint4 (&keys)[S::kPieces][kTiles][2],
                                  Scores& own) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, query = lane / 4;
  int by_high[kTiles][4] = {}, by_low[kTiles][4] = {};
  const auto add = [&](int piece, const uint4(&digits)[kTiles][2]) {
    const int d = piece * kPieceDims + lane % 4 * 16;
    const uint4 high = *reinterpret_cast<const uint4*>(&shared.query[0][query][d]);
    const uint4 low = *reinterpret_cast<const uint4*>(&shared.query[1][query][d]);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) multiply(by_high[tile], by_low[tile], high, low, digits[tile]);
  };
  if constexpr (S::kAhead) {
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) add(piece, keys[piece]);
  } else {
    for (int piece = 0; piece < ceil_div(S::head_dim(p), kPieceDims); ++piece) {
      uint4 digits[kTiles][2];
      load_keys<S>(p, at, block, piece, digits);
      add(piece, digits);
    }
  }
  const float factor = shared.factor[query];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int key = warp * kWarpKeys + tile * kCoreRows + lane % 4 * 2, page = block.page(key / kKeyGroup);
    uchar2 key_units = make_uchar2(0, 0), value_units = key_units;
    if (page >= 0) {
      const std::int64_t unit = Place(p, at, page, block.first + key).unit(p);
      key_units = *reinterpret_cast<const uchar2*>(p.kv.key_units + unit);
      value_units = *reinterpret_cast<const uchar2*>(p.kv.value_units + unit);
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool seen = row.exists && row.range.has(block.first + key + e);
      const float sum = __int2float_rn(combined(by_high[tile], by_low[tile], e));
      const float unit = reprofuse::int16::unit_value(e == 0 ? key_units.x : key_units.y);
      const float score = __fmul_rn(__fmul_rn(sum, unit), factor);
      if (seen) record_if_not_finite(p.record, p.op, row.row, row.head, score);
      own.score[tile][e] = seen ? score : masked_score();
      own.unit[tile][e] = seen ? (e == 0 ? value_units.x : value_units.y) : 0;
    }
  }
}

// What a block comes to beside its weighted sums, for the thread's query. One that sees no key has the maximum -inf.
struct BlockSoftmax {
  float max, sum, scale;
};

// Scores become the digits of weights, in shared memory. Threads of a warp, and then warps, agree on the maximum.
__device__ inline BlockSoftmax weigh_keys(const Scores& own, Shared& shared) {
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
  __syncthreads();
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
  __syncthreads();
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
};

// The block's weighted sums of the thread's elements, given to take(i, sums).
template <typename S, typename Take>
__device__ inline void sum_values(const AttentionParams& p, const QueryGroup& at, const Block& block,
                                  const Shared& shared, const uint4 (&values)[S::kAhead ? S::kDimGroups : 1][2][2],
                                  const Take& take) {
  const int lane = threadIdx.x % kWarp, query = lane / 4;
  uint4 high[2], low[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int place = (half * 4 + lane % 4) * kKeyGroup;
    high[half] = *reinterpret_cast<const uint4*>(&shared.weights[0][query][place]);
    low[half] = *reinterpret_cast<const uint4*>(&shared.weights[1][query][place]);
  }
#pragma unroll
  for (int i = 0; i < S::kDimGroups; ++i) {
    const int group = Totals<S>::group(i);
    if (!S::kAhead && group >= S::head_dim(p) / kCoreRows) break;
    int by_high[4] = {}, by_low[4] = {};
    const auto multiply_halves = [&](const uint4(&own)[2][2]) {
#pragma unroll
      for (int half = 0; half < 2; ++half) multiply(by_high, by_low, high[half], low[half], own[half]);
    };
    if constexpr (S::kAhead) {
      multiply_halves(values[i]);
    } else {
      uint4 own[2][2];
      load_values<S>(p, at, block, group, own);
      multiply_halves(own);
    }
    take(i, make_float2(__int2float_rn(combined(by_high, by_low, 0)), __int2float_rn(combined(by_high, by_low, 1))));
  }
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

// Main loop over blocks first, first + step, ... below `end`: scores, weights, weighted sums. Calls
// take_block(index, softmax, block, values) for each, which has to call sum_values().
template <typename S, typename RowOf, typename TakeBlock>
__device__ inline void walk_blocks(const AttentionParams& p, const QueryGroup& at, const RowOf& row_of, Shared& shared,
                                   int first, int end, int step, const TakeBlock& take_block) {
  constexpr int kValueGroups = S::kAhead ? S::kDimGroups : 1;
  uint4 keys[S::kPieces][kTiles][2], values[kValueGroups][2][2];
  const auto fetch_keys = [&](const Block& block) {
#pragma unroll
    for (int piece = 0; S::kAhead && piece < S::kPieces; ++piece) load_keys<S>(p, at, block, piece, keys[piece]);
  };
  const auto fetch_values = [&](const Block& block) {
#pragma unroll
    for (int i = 0; S::kAhead && i < S::kDimGroups; ++i) load_values<S>(p, at, block, Totals<S>::group(i), values[i]);
  };
  const QueryRow row = row_of(static_cast<int>(threadIdx.x % kWarp / 4));
  Block block;
  block.find(p, at, first);
  fetch_keys(block);
  fetch_values(block);
  snap_queries<S>(p, row_of, shared);
  __syncthreads();
  for (int i = first; i < end; i += step) {
    const bool more = i + step < end;
    Block next_block = block;
    if (more) next_block.find(p, at, i + step);
    Scores scores;
    score_keys<S>(p, at, block, row, shared, keys, scores);
    if (more) fetch_keys(next_block);
    const BlockSoftmax softmax = weigh_keys(scores, shared);
    take_block(i, softmax, block, values);
    if (more) fetch_values(next_block);
    block = next_block;
  }
}

}  // namespace reprofuse::cuda::int16::ops
