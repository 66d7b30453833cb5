// Attention of up to eight queries by contracts int16-1 and exact-2: what their kernels share. Queries are rows of a
// matrix product, their first digits rows 0 to 7 and their second ones 8 to 15, so that a thread has all that makes a
// score. For the scores a warp has 32 keys of the block, for the weighted sums a quarter of the elements.
#pragma once

#include "kernels/cuda/attention/integer/fold.cuh"
#include "kernels/cuda/ptx/sm80.cuh"

namespace reprofuse::cuda::integer_attention {

inline constexpr int kWarps = kFewQueriesThreads / kWarp;
inline constexpr int kWarpKeys = kKeyBlock / kWarps, kTiles = kWarpKeys / kCoreRows;  // of keys, 8 each
inline constexpr int kGroups = kKeyBlock / kKeyGroup;  // of keys whose values lie together
inline constexpr int kPieceDims = 64;                  // elements of a head that a load of 16 bytes in each lane covers
inline constexpr int kQueryPitch = kMaxHeadDim + 16;
inline constexpr int kWeightPitch = kKeyBlock + 16;  // no bank conflicts between rows
static_assert(kFewQueries == 8 && kTiles == 4 && kGroups == 8);

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

struct FewQueriesShape {
  int head_dim;  // 0: any, without loads ahead of their use
};

template <typename Numbers, FewQueriesShape kShape>
struct FewQueries {
  using N = Numbers;
  static constexpr int kHeadDim = kShape.head_dim;
  static constexpr int kPieces = kHeadDim == 0 ? 1 : kHeadDim / kPieceDims;
  static constexpr int kDimGroups = (kHeadDim == 0 ? kMaxHeadDim : kHeadDim) / kCoreRows / kWarps;  // of a warp
  static constexpr bool kAhead = kHeadDim > 0;
  __device__ static int head_dim(const AttentionParams& p) { return kHeadDim == 0 ? p.kv.head_dim : kHeadDim; }
};

// Of contracts that fit the unit of weights to a query.
template <typename N>
struct SharedFit {};
template <>
struct SharedFit<ThreeDigits> {
  float fit[kWarps][kFewQueries];
};

template <typename N>
struct Shared : SharedFit<N> {
  alignas(16) std::int8_t query[N::kDigits][kFewQueries][kQueryPitch];      // digits
  alignas(16) std::uint8_t weights[N::kDigits][kFewQueries][kWeightPitch];  // digits, in the order of values
  float factor[kFewQueries];
  float max[kWarps][kFewQueries];
  int sum[kWarps][kFewQueries];
  int unit[kWarps][kFewQueries];
};

// Sums of products: by[i] those of the right operand's digit i with the left one's first digit, and, two places
// further, with its second. A fourth of three digits has the left one's third, by the right one's first and second.
template <typename N>
struct DigitSums {
  int by[N::kDigits == 2 ? 2 : 4][4] = {};

  // Word `step` of a row has four terms; the next ones are 16 terms further.
  __device__ void multiply(const std::uint32_t (&left)[N::kDigits][2], const std::uint32_t (&right)[N::kDigits][2]) {
#pragma unroll
    for (int i = 0; i < N::kDigits; ++i)
      ptx::mma_m16n8k32_s8(by[i], left[0][0], left[1][0], left[0][1], left[1][1], right[i][0], right[i][1]);
    if constexpr (N::kDigits == 3) {
      ptx::mma_m16n8k32_s8(by[3], left[2][0], 0, left[2][1], 0, right[0][0], right[0][1]);
      ptx::mma_m16n8k32_s8(by[3], 0, left[2][0], 0, left[2][1], right[1][0], right[1][1]);
    }
  }
  __device__ float value(int e) const {
    const int leading = by[0][e] * 256 + by[0][2 + e] + by[1][e];
    if constexpr (N::kDigits == 2)
      return __int2float_rn(leading);
    else
      return N::value_of(__int2float_rn(leading),
                         __ll2float_rn(256LL * (by[1][2 + e] + by[2][e] + by[3][e]) + by[2][2 + e] + by[3][2 + e]));
  }
};

// The digits of the queries, with zeros beyond the last of them and the last element. `row_of` tells the QueryRow.
template <typename S, typename RowOf>
__device__ inline void snap_queries(const AttentionParams& p, const RowOf& row_of, Shared<typename S::N>& shared) {
  using N = typename S::N;
  const int lane = threadIdx.x % kWarp, head_dim = S::head_dim(p);
  for (int query = threadIdx.x / kWarp; query < kFewQueries; query += kWarps) {
    const QueryRow own = row_of(query);
    const float* from = p.q + own.row * p.q_stride + own.head * head_dim;
    std::uint32_t largest = 0;
    for (int d = lane; own.exists && d < head_dim; d += kWarp) largest = max(largest, magnitude_bits(from[d]));
    const int unit = N::unit_byte(__reduce_max_sync(~0u, largest));
    const float inverse = reprofuse::int16::inverse_unit(unit);
    for (int d = lane; d < kMaxHeadDim; d += kWarp) {
      const bool finite = own.exists && d < head_dim && unit != reprofuse::int16::kNotFinite;
      int x = finite ? N::snap(from[d], inverse) : 0;
#pragma unroll
      for (int digit = N::kDigits - 1; digit > 0; --digit) {
        shared.query[digit][query][d] = static_cast<std::int8_t>(lowest_digit(x));
        x = upper_digits(x);
      }
      shared.query[0][query][d] = static_cast<std::int8_t>(x);
    }
    if (lane == 0) shared.factor[query] = own.exists ? N::score_factor(p.scale, unit) : 0.0f;
  }
}

// The scores of a thread: one query, two neighbouring keys of each tile.
struct Scores {
  float score[kTiles][2];
  int unit[kTiles][2];  // of the values; 0 where the query does not see the key

  // From the sums of two neighbouring keys, the first at `position`.
  template <typename N>
  __device__ void set(const AttentionParams& p, const QueryRow& row, float factor, int tile, int position,
                      const DigitSums<N>& sums, uchar2 key_units, uchar2 value_units) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool seen = row.exists && row.range.has(position + e);
      const float sum = sums.value(e);
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

// The unit that a query's weights count in. Threads and warps agree on it as on the maximum.
template <typename N, typename Sync>
__device__ inline int weight_unit_of(const Scores& own, float largest, int largest_unit, Shared<N>& shared,
                                     const Sync& sync) {
  if constexpr (!N::kFitsWeights) {
    return largest_unit;
  } else {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, query = lane / 4;
    float fit = -N::kMaxFit;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float log2 = fmaxf(__fsub_rn(own.score[tile][e], largest), reprofuse::int16::kExp2Min);
        if (own.unit[tile][e] != 0) fit = fmaxf(fit, N::fit_of(log2, own.unit[tile][e], largest_unit));
      }
#pragma unroll
    for (int step = 1; step < 4; step *= 2) fit = fmaxf(fit, __shfl_xor_sync(~0u, fit, step));
    if (lane % 4 == 0) shared.fit[warp][query] = fit;
    sync();
#pragma unroll
    for (int w = 0; w < kWarps; ++w) fit = fmaxf(fit, shared.fit[w][query]);
    return N::weight_unit(largest_unit, fit);
  }
}

// Scores become the digits of weights, in shared memory. Threads of a warp, and then warps, agree on the maximum;
// `sync` is a barrier of the math warps. One piece: scores stay in registers from one barrier to the next.
template <typename N, typename Sync>
__device__ inline QuerySoftmax weigh_keys(const Scores& own, Shared<N>& shared, const Sync& sync) {
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
  const int weight_unit = weight_unit_of(own, largest, largest_unit, shared, sync);
  int sum = 0;
#pragma unroll
  for (int pair = 0; pair < kTiles / 2; ++pair) {
    std::uint32_t digits[N::kDigits] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = pair * 2 + i / 2, e = i % 2;
      const float score = own.score[tile][e];
      const float p = N::exp2(__fsub_rn(score, largest));
      const float factor = N::weight_factor(own.unit[tile][e], weight_unit);
      const bool seen = own.unit[tile][e] != 0;
      int weight = seen ? N::weight_of(p, factor) : 0;
      sum += seen ? reprofuse::int16::sum_term(p) : 0;
#pragma unroll
      for (int digit = N::kDigits - 1; digit >= 0; --digit) {
        digits[digit] |= (static_cast<std::uint32_t>(weight) & 255u) << 8 * i;
        weight = upper_digits(weight);
      }
    }
    const int place = (warp * 2 + pair) * kKeyGroup + lane % 4 * 4;  // place_in_group() of the four
#pragma unroll
    for (int digit = 0; digit < N::kDigits; ++digit)
      *reinterpret_cast<std::uint32_t*>(&shared.weights[digit][query][place]) = digits[digit];
  }
#pragma unroll
  for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane % 4 == 0) shared.sum[warp][query] = sum;
  sync();
  int whole = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) whole += shared.sum[w][query];
  return {largest, sum_value(whole), N::value_scale(weight_unit)};
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
    const Rescale<typename S::N> rescale(max, next.max, next.scale);
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
    for (int e = 0; e < 2; ++e) out[Totals<S>::first_element(i) + e] = ops::finished(total.weighted[i][e], total.sum);
  }
}

}  // namespace reprofuse::cuda::integer_attention
