// Decode by contracts int16-1 and exact-2 where there is a TMA: tiles of digits, their products, and rows that decode
// rotates.
#pragma once

#include "kernels/cuda/attention/integer/block_loads_sm90.cuh"
#include "kernels/cuda/attention/integer/queries_sm80.cuh"
#include "kernels/cuda/attention/integer/store_digits.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/ptx/sm90.cuh"

namespace reprofuse::cuda::integer_attention {

struct DigitStreamShape {
  int head_dim;
  int stages;       // tiles in shared memory
  int ctas_per_sm;  // that they leave room for
};

template <typename Numbers, DigitStreamShape kShape>
struct DigitStream : FewQueries<Numbers, FewQueriesShape{.head_dim = kShape.head_dim}> {
  static constexpr int kDim = kShape.head_dim, kStages = kShape.stages, kCtasPerSm = kShape.ctas_per_sm;
  static constexpr int kPlaneBytes = kKeyBlock * kDim;
  static constexpr int kThreads = kFewQueriesThreads + kWarp;
};

template <typename S>
struct DigitTile {
  std::uint8_t digits[S::N::kDigits * S::kPlaneBytes];
  std::uint8_t key_units[kKeyBlock], value_units[kKeyBlock];  // of tiles of keys
};

// The key and the value of the row's own position, where decode makes them: planes of digits, the highest first.
template <typename S>
struct OwnPosition {
  std::int8_t key[S::N::kDigits][S::kDim], value[S::N::kDigits][S::kDim];
  std::uint8_t key_unit, value_unit;
  float chains[ops::kNormLanes];  // of the key's norm
  std::uint64_t ready;            // barrier: all of the above is there
};

template <typename S>
struct DigitStreamShared {
  alignas(128) DigitTile<S> tiles[S::kStages];
  Shared<typename S::N> queries;
  std::uint64_t barriers[2 * S::kStages];
  OwnPosition<S> own;
  // What the cluster reads. Before that, the chains of norms of queries, of each warp.
  union {
    float weighted[kFewQueries][S::kDim];
    float chains[kWarps][ops::kNormLanes];
  };
  float max[kFewQueries], sum[kFewQueries], scale[kFewQueries];

  __device__ ptx::Pipeline pipeline() { return {barriers, S::kStages}; }
};

__device__ inline void sync_math_warps() {
  ptx::named_barrier_sync<kFewQueriesThreads>(1);
}

// The left operand of 32 terms: the digits of a row.
template <typename N>
struct LeftDigits {
  std::uint32_t digits[N::kDigits][2];

  template <typename Planes>
  __device__ void load(const Planes& planes, int first) {
    const int row = own_query(), place = first + threadIdx.x % 4 * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int digit = 0; digit < N::kDigits; ++digit)
        digits[digit][half] = *reinterpret_cast<const std::uint32_t*>(&planes[digit][row][place + half * 16]);
  }
};

// What a math thread holds at once: totals, a query's digits or, as many, those of its weights, scores, and the sums
// and digits of 64 terms.
template <typename S>
constexpr int live_registers() {
  using N = typename S::N;
  constexpr int kLeftDigits = (S::kDim > kKeyBlock ? S::kDim : kKeyBlock) / 32 * sizeof(LeftDigits<N>);
  return (sizeof(Totals<S>) + kLeftDigits + sizeof(Scores) + sizeof(DigitSums<N>)) / 4 + 4 * N::kDigits;
}

// 64 terms by all digits of the right operand. `row` is the lane's row of the highest ones.
template <int kPlaneBytes, typename N>
__device__ inline void multiply_64(DigitSums<N>& sums, const LeftDigits<N> (&left)[2], const std::uint8_t* row) {
  std::uint32_t right[N::kDigits][4];
#pragma unroll
  for (int digit = 0; digit < N::kDigits; ++digit) ptx::ldmatrix_x4(right[digit], row + digit * kPlaneBytes);
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    std::uint32_t words[N::kDigits][2];
#pragma unroll
    for (int digit = 0; digit < N::kDigits; ++digit) {
      words[digit][0] = right[digit][2 * step];
      words[digit][1] = right[digit][2 * step + 1];
    }
    sums.multiply(left[step].digits, words);
  }
}

template <typename S>
__device__ inline void score_tile(const AttentionParams& p, const QueryRow& row, float factor, int first_key,
                                  const LeftDigits<typename S::N> (&query)[S::kDim / 64][2], const DigitTile<S>& keys,
                                  Scores& own) {
  const int lane = threadIdx.x % kWarp, first_tile = threadIdx.x / kWarp * kTiles;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    DigitSums<typename S::N> sums;
    const std::uint8_t* from = keys.digits + (first_tile + tile) * (S::kDim * kCoreRows) + lane * kCoreRowBytes;
#pragma unroll
    for (int i = 0; i < S::kDim / 64; ++i) multiply_64<S::kPlaneBytes>(sums, query[i], from + i * 4 * kCoreBytes);
    const int key = (first_tile + tile) * kCoreRows + lane % 4 * 2;
    own.set(p, row, factor, tile, first_key + key, sums, *reinterpret_cast<const uchar2*>(keys.key_units + key),
            *reinterpret_cast<const uchar2*>(keys.value_units + key));
  }
}

// Calls take(i, sums) with the block's weighted sums of the thread's elements.
template <typename S, typename Take>
__device__ inline void sum_tile(const Shared<typename S::N>& shared, const DigitTile<S>& values, const Take& take) {
  const int lane = threadIdx.x % kWarp;
  LeftDigits<typename S::N> weights[kKeyBlock / 64][2];
#pragma unroll
  for (int i = 0; i < kKeyBlock / 32; ++i) weights[i / 2][i % 2].load(shared.weights, i * 32);
#pragma unroll
  for (int i = 0; i < S::kDimGroups; ++i) {
    DigitSums<typename S::N> sums;
    const std::uint8_t* from =
        values.digits + lane / 8 * (S::kDim * kKeyGroup) + Totals<S>::group(i) * kCoreBytes + lane % 8 * kCoreRowBytes;
#pragma unroll
    for (int j = 0; j < kKeyBlock / 64; ++j)
      multiply_64<S::kPlaneBytes>(sums, weights[j], from + j * 4 * (S::kDim * kKeyGroup));
    take(i, make_float2(sums.value(0), sums.value(1)));
  }
}

// The blocks of a CTA: every p.splits-th of the row's, from blockIdx.x on.
struct DigitStreamWork : DecodeWork {
  int count;

  __device__ explicit DigitStreamWork(const AttentionParams& p)
      : DecodeWork(p), count(max(0, ceil_div(key_blocks - static_cast<int>(blockIdx.x), p.splits))) {}
  __device__ int block(const AttentionParams& p, int i) const { return first_block + blockIdx.x + i * p.splits; }
  // The row's own position, which lies in its last block.
  __device__ int position() const { return range.end - 1; }
  __device__ bool is_last(int block) const { return block == position() / kKeyBlock; }
};

// Cosines and sines for the lane, of the row's position.
__device__ inline ops::Rotation rotation_of(const DecodeParams& p, const DigitStreamWork& at, int half) {
  ops::Rotation rotation;
  const std::int64_t angle = static_cast<std::int64_t>(max(at.position(), 0)) * half;
  rotation.load(p.rotary.cos + angle, p.rotary.sin + angle, half, threadIdx.x % kWarp);
  return rotation;
}

// The TMA warp: makes the key and the value of the row's own position, and stores them in the pages.
template <typename S>
__device__ inline void make_own_position(const DecodeParams& p, const DigitStreamWork& at,
                                         const ops::Rotation& rotation, int page, OwnPosition<S>& own) {
  constexpr int kHalf = S::kDim / 2;
  const int lane = threadIdx.x % kWarp;
  Head key, value;
  key.load(p.rotary.k + at.row * p.rotary.k_stride + at.heads.kv_head * S::kDim, kHalf, lane);
  value.load(p.rotary.v + at.row * p.rotary.v_stride + at.heads.kv_head * S::kDim, kHalf, lane);
  if (p.rotary.k_norm != nullptr) key.normalize(p.rotary.k_norm, p.rotary.eps, kHalf, lane, own.chains);
  key.rotate(rotation, kHalf, lane);
  const KeyAndValue<typename S::N> made(key, value, S::kDim, lane);
  for_each_element(key, S::kDim, lane, [&](int d, float x) { made.key_unit.store(&own.key[0][d], S::kDim, x); });
  for_each_element(value, S::kDim, lane, [&](int d, float x) { made.value_unit.store(&own.value[0][d], S::kDim, x); });
  if (lane == 0) {
    own.key_unit = static_cast<std::uint8_t>(made.key_unit.unit);
    own.value_unit = static_cast<std::uint8_t>(made.value_unit.unit);
  }
  ptx::mbarrier_arrive(&own.ready);
  if (blockIdx.y % p.sets == 0) made.store(p.kv, page, at.position(), at.heads.kv_head, S::kDim, lane);
}

// The math warps: puts them into the tiles of their block, which came without them.
template <typename S>
__device__ inline void add_own_position(const DigitStreamWork& at, OwnPosition<S>& own, DigitTile<S>& keys,
                                        DigitTile<S>& values) {
  const int slot = at.position() % kKeyBlock;
  constexpr HeadPage kPlaces{S::kDim, kKeyBlock};
  ptx::mbarrier_wait(&own.ready, 0);
  for (int i = threadIdx.x; i < S::N::kDigits * S::kDim; i += kFewQueriesThreads) {
    const int plane = i / S::kDim, d = i % S::kDim;
    keys.digits[plane * S::kPlaneBytes + kPlaces.key(slot, d)] = static_cast<std::uint8_t>(own.key[plane][d]);
    values.digits[plane * S::kPlaneBytes + kPlaces.value(slot, d)] = static_cast<std::uint8_t>(own.value[plane][d]);
  }
  if (threadIdx.x == 0) {
    keys.key_units[slot] = own.key_unit;
    keys.value_units[slot] = own.value_unit;
  }
}

// The math warps: rotates the queries, and makes digits of them as snap_queries() does, of those that there are.
template <typename S>
__device__ inline void rotate_queries(const DecodeParams& p, const DigitStreamWork& at, const ops::Rotation& rotation,
                                      DigitStreamShared<S>& shared) {
  constexpr int kHalf = S::kDim / 2, kEach = kFewQueries / kWarps;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  Head heads[kEach] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {  // all loads in flight at once
    const int query = warp + i * kWarps;
    if (query < at.heads.count)
      heads[i].load(p.q + at.row * p.q_stride + (at.heads.first + query) * S::kDim, kHalf, lane);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int query = warp + i * kWarps;
    if (query >= at.heads.count) break;  // no one looks at what the others come to
    if (p.rotary.q_norm != nullptr) heads[i].normalize(p.rotary.q_norm, p.rotary.eps, kHalf, lane, shared.chains[warp]);
    heads[i].rotate(rotation, kHalf, lane);
    const WarpUnit<typename S::N> unit(heads[i], S::kDim, lane);
    for_each_element(heads[i], S::kDim, lane, [&](int d, float x) {
      unit.store(&shared.queries.query[0][query][d], kFewQueries * kQueryPitch, x);
    });
    if (lane == 0) shared.queries.factor[query] = S::N::score_factor(p.scale, unit.unit);
  }
}

}  // namespace reprofuse::cuda::integer_attention
