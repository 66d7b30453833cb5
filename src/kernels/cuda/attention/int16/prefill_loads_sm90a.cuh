// Prefill by contracts int16-1 and exact-2: shared memory, and the warps that fill it.
#pragma once

#include "kernels/cuda/attention/int16/block_loads_sm90.cuh"
#include "kernels/cuda/attention/int16/softmax_sm90a.cuh"

namespace reprofuse::cuda::int16::ops {

inline constexpr int kWarpgroup = 128, kWarpgroupRows = 64;

struct PrefillShape {
  int head_dim;
  int keys;    // of a block
  int stages;  // blocks in shared memory
  int slice;   // elements of a head whose sums a warpgroup has at once
  int parts;   // in which those sums, and the scores of a block, are made: one is multiplied, the other worked on
  int value_stages = stages;
  int value_parts = parts;
};

template <typename Numbers, PrefillShape kShape>
struct Prefill {
  using N = Numbers;
  static constexpr int kHeadDim = kShape.head_dim, kKeys = kShape.keys, kStages = kShape.stages;
  static constexpr int kSlice = kShape.slice, kParts = kShape.parts;
  static constexpr int kValueStages = kShape.value_stages, kValueParts = kShape.value_parts;
  static constexpr bool kQueriesInShared = kHeadDim > 128 ||
                                           (N::kDigits > 2 && kHeadDim > 96);                 // otherwise in registers
  static constexpr int kQueryPlaneBytes = kQueriesInShared ? kWarpgroupRows * kHeadDim : 64;  // of a warpgroup
  static constexpr int kWarpgroups = kPrefillQueries / kWarpgroupRows;
  static constexpr int kMathThreads = kWarpgroups * kWarpgroup, kThreads = kMathThreads + kWarpgroup;
  static constexpr int kPlaneBytes = kKeys * kHeadDim, kTileBytes = N::kDigits * kPlaneBytes;
  static constexpr int kProducerRegisters = 24, kMathRegisters = 240;
  static_assert(kMathThreads * kMathRegisters + kWarpgroup * kProducerRegisters <=
                    kThreads * registers_per_thread(kThreads, 1),
                "setmaxnreg must not ask for more registers than the CTA was given: it would wait for ever");
};

// What a CTA has in shared memory.
template <typename S>
struct PrefillShared {
  alignas(128) std::uint8_t keys[S::kStages][S::kTileBytes];
  alignas(128) std::uint8_t values[S::kValueStages][S::kTileBytes];
  alignas(128) std::uint8_t queries[S::kWarpgroups][S::N::kDigits * S::kQueryPlaneBytes];
  alignas(16) BlockFacts<typename S::N, S::kKeys> facts[S::kStages];
  std::uint64_t key_barriers[2 * S::kStages], value_barriers[2 * S::kValueStages];
  std::uint64_t facts_ready[S::kStages];

  __device__ ptx::Pipeline key_pipeline() { return {key_barriers, S::kStages}; }
  __device__ ptx::Pipeline value_pipeline() { return {value_barriers, S::kValueStages}; }
  __device__ void init() {
    key_pipeline().init(1, S::kMathThreads);
    value_pipeline().init(1, S::kMathThreads);
    for (std::uint64_t& barrier : facts_ready) ptx::mbarrier_init(&barrier, kWarp);
    ptx::fence_mbarrier_init();
  }
};

// The rows of one chunk that a CTA has, times the heads of its set.
struct PrefillTile {
  int first_row, rows;  // of the batch
  int position;         // of the first row
  int sequence;
  int begin, end;  // of the keys that some row sees
  fma1::ops::HeadSet heads;

  __device__ int queries() const { return rows * heads.count; }
};

// The TMA warp.
template <typename S>
__device__ inline void load_blocks(const AttentionParams& p, const PrefillTile& tile, PrefillShared<S>& shared,
                                   int first_block, int blocks) {
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
    pieces.load_units(block, page, shared.facts[at.stage].key_bytes, shared.facts[at.stage].value_bytes, keys_full);
    const auto values_at = ptx::PipelineState::of_producer(i, S::kValueStages);
    if (i >= S::kValueStages) values.wait_empty(values_at);
    pieces.load_digits(p.kv.values, block, page, shared.values[values_at.stage], values.full_barrier(values_at.stage));
    page = next_page;
  }
}

// The warp that makes numbers of units. What it makes of keys that no row sees, no row uses.
template <typename S>
__device__ inline void prepare_facts(PrefillShared<S>& shared, int blocks) {
  using N = typename S::N;
  constexpr int kOwn = S::kKeys / kWarp;  // keys of a lane
  const int first = threadIdx.x % kWarp * kOwn;
  for (int i = 0; i < blocks; ++i) {
    const auto at = ptx::PipelineState::of_consumer(i, S::kStages);
    shared.key_pipeline().wait_full(at);
    BlockFacts<typename S::N, S::kKeys>& facts = shared.facts[at.stage];
    int largest_key = 0, largest_value = reprofuse::int16::kMinUnit;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      largest_key = max(largest_key, int{facts.key_bytes[first + j]});
      largest_value = max(largest_value, int{facts.value_bytes[first + j]});
    }
    largest_key = __reduce_max_sync(~0u, largest_key);
    largest_value = __reduce_max_sync(~0u, largest_value);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      facts.key_units[first + j] = reprofuse::int16::unit_value(facts.key_bytes[first + j]);
      if constexpr (N::kFitsWeights) {
        const int step = facts.value_bytes[first + j] - largest_value;
        facts.value_steps[first + j] = static_cast<float>(step);
        facts.weight_factors[first + j] = reprofuse::int16::power_of_two(max(step, -126));
      } else {
        facts.weight_factors[first + j] = N::weight_factor(facts.value_bytes[first + j], largest_value);
      }
    }
    if (first == 0) {
      facts.largest_key_unit = reprofuse::int16::unit_value(largest_key);
      facts.value_scale = N::value_scale(largest_value);
      if constexpr (N::kFitsWeights) facts.largest_value_unit = largest_value;
    }
    ptx::mbarrier_arrive(&shared.facts_ready[at.stage]);
  }
}

}  // namespace reprofuse::cuda::int16::ops
