// Prefill by contracts int16-1 and exact-2: shared memory, the warps that fill it, and the queries of a warpgroup's
// threads.
#pragma once

#include "kernels/cuda/attention/integer/block_loads_sm90.cuh"
#include "kernels/cuda/attention/integer/prefill_products_sm90a.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/ptx/sm90.cuh"

namespace reprofuse::cuda::integer_attention {

struct WgmmaPrefillShape {
  int head_dim;
  int keys;    // of a block
  int stages;  // blocks in shared memory
  int slice;   // elements of a head whose sums a warpgroup has at once
  int panels;  // in which those sums, and the scores of a block, are made: one is multiplied, the other worked on
  int value_stages = stages;
  int value_panels = panels;
};

template <typename Numbers, WgmmaPrefillShape kShape>
struct WgmmaPrefill {
  using N = Numbers;
  static constexpr int kHeadDim = kShape.head_dim, kKeys = kShape.keys, kStages = kShape.stages;
  static constexpr int kSlice = kShape.slice, kPanels = kShape.panels;
  static constexpr int kValueStages = kShape.value_stages, kValuePanels = kShape.value_panels;
  static constexpr bool kQueriesInShared = kHeadDim > 128 ||
                                           (N::kDigits > 2 && kHeadDim > 96);                 // otherwise in registers
  static constexpr int kQueryPlaneBytes = kQueriesInShared ? kWarpgroupRows * kHeadDim : 64;  // of a warpgroup
  static constexpr int kWarpgroups = kPrefillQueries / kWarpgroupRows;
  static constexpr int kMathThreads = kWarpgroups * kWarpgroup, kThreads = kMathThreads + kWarpgroup;
  static constexpr int kPlaneBytes = kKeys * kHeadDim, kTileBytes = N::kDigits * kPlaneBytes;
  static constexpr int kProducerRegisters = 24, kMathRegisters = 240;
  static_assert(can_move_registers(kMathThreads, kMathRegisters, kWarpgroup, kProducerRegisters, 1));

  // A math thread's totals of two rows and digits of their queries; then sums of scores, of every kind that there is,
  // or digits of weights and sums of values.
  static constexpr int kSumKinds = N::kDigits - 1;
  static constexpr int kHeldRegisters = kHeadDim / 2 + 4 + (kQueriesInShared ? 0 : N::kDigits * kHeadDim / 8);
  static constexpr int kScoreRegisters = kSumKinds * kKeys / 2;
  static constexpr int kValueRegisters = N::kDigits * kKeys / 8 + kSumKinds * kSlice / 2;
  static_assert(kHeldRegisters + (kScoreRegisters > kValueRegisters ? kScoreRegisters : kValueRegisters) + 24 <=
                    kMathRegisters,
                "totals, queries, sums and some 24 registers of addresses must fit");
};

// What a CTA has in shared memory.
template <typename S>
struct WgmmaPrefillShared {
  alignas(128) std::uint8_t keys[S::kStages][S::kTileBytes];
  alignas(128) std::uint8_t values[S::kValueStages][S::kTileBytes];
  alignas(128) std::uint8_t queries[S::kWarpgroups][S::N::kDigits * S::kQueryPlaneBytes];
  alignas(16) BlockUnits<typename S::N, S::kKeys> units[S::kStages];
  std::uint64_t key_barriers[2 * S::kStages], value_barriers[2 * S::kValueStages];
  std::uint64_t unit_full_barriers[S::kStages];  // their stages are released with those of keys

  __device__ ptx::Pipeline key_pipeline() { return {key_barriers, S::kStages}; }
  __device__ ptx::Pipeline value_pipeline() { return {value_barriers, S::kValueStages}; }
  __device__ ptx::FullBarriers unit_barriers() { return {unit_full_barriers, S::kStages}; }
  __device__ void init() {
    key_pipeline().init(1, S::kMathThreads);
    value_pipeline().init(1, S::kMathThreads);
    unit_barriers().init(kWarp);
    ptx::fence_mbarrier_init();
  }
};

// The rows of one chunk that a CTA has, times the heads of its set.
struct WgmmaPrefillTile {
  int first_row, rows;  // of the batch
  int position;         // of the first row
  int sequence;
  int begin, end;  // of the keys that some row sees
  ops::HeadSet heads;

  __device__ int queries() const { return rows * heads.count; }
};

// The TMA warp.
template <typename S>
__device__ inline void load_stages(const AttentionParams& p, const WgmmaPrefillTile& tile,
                                   WgmmaPrefillShared<S>& shared, int first_block, int blocks) {
  const BlockPieces<S::kKeys, S::kHeadDim, S::N::kDigits> pieces(p, tile.sequence, tile.heads.kv_head, tile.begin,
                                                                 tile.end);
  int page = pieces.page(first_block);
  for (int i = 0; i < blocks; ++i) {
    const int block = first_block + i, next_page = i + 1 < blocks ? pieces.page(block + 1) : -1;
    const auto at = ptx::PipelineState::of_producer(i, S::kStages);
    const ptx::Pipeline keys = shared.key_pipeline(), values = shared.value_pipeline();
    std::uint64_t* const keys_full = keys.full_barrier(at.stage);
    if (i >= S::kStages) keys.wait_empty(at);
    pieces.load_digits(p.kv.keys, block, page, shared.keys[at.stage], keys_full, pieces.unit_bytes());
    pieces.load_units(block, page, shared.units[at.stage].key_bytes, shared.units[at.stage].value_bytes, keys_full);
    const auto values_at = ptx::PipelineState::of_producer(i, S::kValueStages);
    if (i >= S::kValueStages) values.wait_empty(values_at);
    pieces.load_digits(p.kv.values, block, page, shared.values[values_at.stage], values.full_barrier(values_at.stage));
    page = next_page;
  }
}

// The warp that converts units from bytes to floats. What it makes of keys that no row sees, no row uses.
template <typename S>
__device__ inline void convert_units(WgmmaPrefillShared<S>& shared, int blocks) {
  using N = typename S::N;
  constexpr int kOwn = S::kKeys / kWarp;  // keys of a lane
  const int first = threadIdx.x % kWarp * kOwn;
  for (int i = 0; i < blocks; ++i) {
    const auto at = ptx::PipelineState::of_consumer(i, S::kStages);
    shared.key_pipeline().wait_full(at);
    BlockUnits<N, S::kKeys>& units = shared.units[at.stage];
    int largest_key = 0, largest_value = reprofuse::int16::kMinUnit;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      largest_key = max(largest_key, int{units.key_bytes[first + j]});
      largest_value = max(largest_value, int{units.value_bytes[first + j]});
    }
    largest_key = __reduce_max_sync(~0u, largest_key);
    largest_value = __reduce_max_sync(~0u, largest_value);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      units.key_units[first + j] = reprofuse::int16::unit_value(units.key_bytes[first + j]);
      if constexpr (N::kFitsWeights) {
        const int step = units.value_bytes[first + j] - largest_value;
        units.value_steps[first + j] = static_cast<float>(step);
        units.weight_factors[first + j] = reprofuse::int16::power_of_two(max(step, -126));
      } else {
        units.weight_factors[first + j] = N::weight_factor(units.value_bytes[first + j], largest_value);
      }
    }
    if (first == 0) {
      units.largest_key_unit = reprofuse::int16::unit_value(largest_key);
      units.value_scale = N::value_scale(largest_value);
      if constexpr (N::kFitsWeights) units.largest_value_unit = largest_value;
    }
    shared.unit_barriers().commit(at.stage);
  }
}

// The queries of a math thread, digits as the left operand of a product: rows `lane / 4` and 8 more of its warp. Those
// of long heads lie in shared memory.
template <typename S>
struct Queries {
  using N = typename S::N;
  static constexpr int kSteps = S::kHeadDim / 32, kOwnSteps = S::kQueriesInShared ? 1 : kSteps;
  LeftWords<N, kOwnSteps> digits;
  std::uint64_t descriptor;  // in shared memory
  float factor[2];           // of scores
  int end[2];                // of the keys that a row sees; 0: there is no such query

  __device__ Queries(const AttentionParams& p, const WgmmaPrefillTile& tile, std::uint8_t* shared) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = first_query() + r * 8;
      end[r] = query < tile.queries() ? tile.position + query / tile.heads.count + 1 : 0;
      snap(p, tile, r, shared);
    }
    if constexpr (S::kQueriesInShared) {
      descriptor = Descriptor{.start_address = ptx::shared_address(shared),
                              .leading_byte_offset = kCoreBytes,
                              .stride_byte_offset = S::kHeadDim * kCoreRows}
                       .word();
      ptx::fence_proxy_async();
      ptx::named_barrier_sync<kWarpgroup>(1 + threadIdx.x / kWarpgroup);
    }
  }
  __device__ static int first_query() {
    return threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4;
  }
  __device__ bool exists(int r) const {
    return end[r] > 0;
  }
  __device__ static int row(const WgmmaPrefillTile& tile, int r) {
    return tile.first_row + (first_query() + r * 8) / tile.heads.count;
  }
  __device__ static int head(const WgmmaPrefillTile& tile, int r) {
    return tile.heads.first + (first_query() + r * 8) % tile.heads.count;
  }

 private:
  __device__ void snap(const AttentionParams& p, const WgmmaPrefillTile& tile, int r, std::uint8_t* shared) {
    const float* from = p.q + row(tile, r) * p.q_stride + head(tile, r) * S::kHeadDim + threadIdx.x % 4 * 4;
    float4 q[2 * kSteps];
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      q[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (exists(r))
        q[i] = p.q_aligned ? *reinterpret_cast<const float4*>(from + i * 16)
                           : make_float4(from[i * 16], from[i * 16 + 1], from[i * 16 + 2], from[i * 16 + 3]);
      const float elements[4] = {q[i].x, q[i].y, q[i].z, q[i].w};
#pragma unroll
      for (const float element : elements) largest = max(largest, magnitude_bits(element));
    }
    const int unit = N::unit_byte(static_cast<std::uint32_t>(max_of_quad(static_cast<int>(largest))));
    const float inverse = reprofuse::int16::inverse_unit(unit);
    factor[r] = N::score_factor(p.scale, unit);
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const float elements[4] = {q[i].x, q[i].y, q[i].z, q[i].w};
      std::uint32_t integers[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int x = unit == reprofuse::int16::kNotFinite ? 0 : N::snap(elements[e], inverse);
        integers[e] = static_cast<std::uint32_t>(x) + N::kUnsigned;
      }
      const PackedDigits<N> packed(integers);
      if constexpr (S::kQueriesInShared) {
        const int row = threadIdx.x % kWarpgroup / kWarp * 16 + threadIdx.x % kWarp / 4 + r * 8;
        auto* to = reinterpret_cast<std::uint32_t*>(shared + (row / 8 * (S::kHeadDim / 16) + i) * kCoreBytes +
                                                    row % 8 * 16 + threadIdx.x % 4 * 4);
#pragma unroll
        for (int digit = 0; digit < N::kDigits; ++digit) to[digit * (S::kQueryPlaneBytes / 4)] = packed.digits[digit];
      } else {
#pragma unroll
        for (int digit = 0; digit < N::kDigits; ++digit) digits[digit][i / 2][i % 2 * 2 + r] = packed.digits[digit];
      }
    }
  }
};

// The thread's rows before one block of keys, as BlockSoftmax wants to know them.
template <typename S>
struct RowsAtBlock {
  const AttentionParams& p;
  const WgmmaPrefillTile& tile;
  const Queries<S>& queries;
  int first_key;
  float factor[2];

  __device__ RowsAtBlock(const AttentionParams& params, const WgmmaPrefillTile& of, const Queries<S>& own,
                         int first_key_)
      : p(params), tile(of), queries(own), first_key(first_key_), factor{own.factor[0], own.factor[1]} {}
  __device__ Visible visible(int r) const {
    const int end = queries.end[r], begin = p.window > 0 ? max(0, end - p.window) : 0;
    return {begin - first_key, end - first_key};
  }
  __device__ void record_if_not_finite(int r, float score) const {
    cuda::record_if_not_finite(p.record, p.op, Queries<S>::row(tile, r), Queries<S>::head(tile, r), score);
  }
  // Warp-uniform: whether all rows see the whole block, and no score can be other than finite.
  __device__ bool whole(const BlockUnits<typename S::N, S::kKeys>& units) const {
    bool all = true;
    if constexpr (S::N::kFitsWeights) all = units.largest_value_unit != reprofuse::int16::kNotFinite;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Visible keys = visible(r);
      const float bound = __fmul_rn(__fmul_rn(S::N::kSumBound, units.largest_key_unit), fabsf(factor[r]));
      all = all && (!queries.exists(r) || (keys.begin <= 0 && keys.end >= S::kKeys)) &&
            __float_as_uint(bound) < kInfinityBits;
    }
    return __all_sync(~0u, all);
  }
};

}  // namespace reprofuse::cuda::integer_attention
