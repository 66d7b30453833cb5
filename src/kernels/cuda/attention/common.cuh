// What the attention kernels share: who owns which heads and keys, and how partials are folded.
#pragma once

#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"
#include "numerics/exp_log.hpp"

namespace reprofuse::cuda::ops {

using kernels::kMinPageSize;

// What a kernel for decode is made for.
struct HeadShape {
  int heads;     // of a set, at most
  int head_dim;  // 64 or 128; 0: any, for kernels that can
};

__device__ inline float masked_score() {
  return __uint_as_float(0xff800000u);  // -inf: below every score that is not an error
}

// The query heads of one CTA: all read the same keys and values.
struct HeadSet {
  int kv_head, first, count;

  __device__ explicit HeadSet(const AttentionParams& p, int index = blockIdx.y) {
    const int set = index % p.sets;
    kv_head = index / p.sets;
    first = kv_head * p.group + set * p.set_heads;
    count = min(p.set_heads, p.group - set * p.set_heads);
  }
};

// The keys that a row at `position` sees: [begin, end). Blocks have kBlock keys, as the contract says.
template <int kBlock>
struct KeyRangeOf {
  int begin, end;

  __device__ KeyRangeOf(const AttentionParams& p, int position)
      : begin(p.window > 0 ? max(0, position + 1 - p.window) : 0), end(position + 1) {}
  __device__ bool has(int key) const { return key >= begin && key < end; }
  __device__ int first_block() const { return begin / kBlock; }
  __device__ int blocks() const { return (end + kBlock - 1) / kBlock - first_block(); }
};
using KeyRange = KeyRangeOf<kKeyBlock>;

// The row of a decode item; -1: none.
__device__ inline int row_of_item(const AttentionParams& p, int item) {
  if (p.item_is_row) return item;
  const kernels::Chunk chunk = p.chunks[item];
  return chunk.rows < p.prefill_from ? chunk.first_row : -1;
}

// What a decode item stands for: a row, or a chunk of one row. The arrays of a batch are written by copies, for which
// every kernel waits before it starts: they may be read before wait_for_previous_kernel().
template <int kBlock>
struct DecodeRowOf {
  int item, row, sequence;
  KeyRangeOf<kBlock> range;
  int first_block, key_blocks;  // those of the keys that it sees; 0: the item has no row

  __device__ DecodeRowOf(const AttentionParams& p, int item_)
      : item(item_),
        row(row_of_item(p, item)),
        sequence(row < 0 ? 0 : p.sequences[row]),
        range(p, row < 0 ? -1 : p.positions[row]),
        first_block(range.first_block()),
        key_blocks(min(range.blocks(), p.key_blocks)) {}
  // Where the partial of a head lies, and of the row's `block`-th key block.
  __device__ std::int64_t partial(const AttentionParams& p, int head, int block) const {
    return (static_cast<std::int64_t>(item) * p.heads + head) * p.key_blocks + block;
  }
};

// What a CTA of the decode kernels owns: a row, a set of heads, and every p.splits-th key block from blockIdx.x on.
template <int kBlock>
struct DecodeWorkOf : DecodeRowOf<kBlock> {
  HeadSet heads;

  __device__ explicit DecodeWorkOf(const AttentionParams& p) : DecodeRowOf<kBlock>(p, blockIdx.z), heads(p) {}
  __device__ bool has_work() const { return blockIdx.x < this->key_blocks; }
};
using DecodeWork = DecodeWorkOf<kKeyBlock>;

// The pages of one key block, spread over the lanes of a warp. Those without a key in the range are not looked up: they
// may not exist.
struct BlockPages {
  int pages;  // lane l: the page of keys [16 (l % 4), 16 (l % 4) + 16) of the block

  __device__ void load(const AttentionParams& p, int sequence, int block, const KeyRange& range) {
    const int first = block * kKeyBlock + threadIdx.x % (kKeyBlock / kMinPageSize) * kMinPageSize;
    pages = first < range.end && first + kMinPageSize > range.begin ? p.kv.page_of(sequence, first) : 0;
  }
  __device__ int own() const { return pages; }
  // Whole warps must ask together.
  __device__ int of(int key_in_block) const { return __shfl_sync(~0u, pages, key_in_block / kMinPageSize); }
};

// Two neighbours in shared memory, widened.
template <typename Kv>
__device__ inline float2 widen2(const typename Kv::Bits* from) {
  if constexpr (sizeof(typename Kv::Bits) == 4) {
    return *reinterpret_cast<const float2*>(from);
  } else {
    const std::uint32_t v = *reinterpret_cast<const std::uint32_t*>(from);
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
  }
}

// The largest of a warp's floats, none a NaN: as integers that are ordered alike, for which there is an instruction.
__device__ inline float max_of_warp(float value) {
  const auto flip = [](int bits) { return bits >= 0 ? bits : bits ^ 0x7fffffff; };
  return __int_as_float(flip(__reduce_max_sync(~0u, flip(__float_as_int(value)))));
}

// Both partials rescaled to the larger maximum: total * a + next * b. A total of nothing has the maximum -inf and the
// value 0, and leaves next as it is.
struct Rescale {
  float max, a, b;

  __device__ Rescale(float total_max, float next_max) {
    max = fmaxf(total_max, next_max);
    a = exp_nonpositive_f32(__fsub_rn(total_max, max));
    b = exp_nonpositive_f32(__fsub_rn(next_max, max));
  }
  __device__ float merged(float total, float next) const { return fma_rn(total, a, __fmul_rn(next, b)); }
};

// What a partial is beside its weighted sums.
struct PartialHead {
  float max, sum;
  float scale;  // what the weighted sums count in, if the contract has such
};

// How partials are folded by the contract: Rules::exp, and whether weighted sums have a scale.
struct FoldFma1 {
  static constexpr int kBlock = kKeyBlock;
  static constexpr bool kScaled = false;
  __device__ static float exp(float x) { return exp_nonpositive_f32(x); }
};

// How a run of up to 32 partials is folded, partial l by lane l. A maximum does not depend on order, so the maxima
// before and after each step of the fold come from a scan, and the exponentials of all steps are computed at once.
template <typename Rules>
struct FoldSteps {
  float a, b, scaled_sum;  // total = total * a + next * b

  __device__ FoldSteps(const PartialHead& own, float* running_max) {
    const int lane = threadIdx.x % kWarp;
    float max = lane == 0 ? fmaxf(*running_max, own.max) : own.max;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const float before = __shfl_up_sync(~0u, max, step);
      if (lane >= step) max = fmaxf(max, before);
    }
    float before = __shfl_up_sync(~0u, max, 1);
    if (lane == 0) before = *running_max;
    a = Rules::exp(__fsub_rn(before, max));
    b = Rules::exp(__fsub_rn(own.max, max));
    scaled_sum = __fmul_rn(own.sum, b);
    if constexpr (Rules::kScaled) b = __fmul_rn(own.scale, b);
    *running_max = __shfl_sync(~0u, max, kWarp - 1);
  }
};

// Adding +0 turns a -0, which a masked key could have lost, into +0.
__device__ inline float finished(float weighted, float sum) {
  return __fadd_rn(div_rn(weighted, sum), 0.0f);
}

}  // namespace reprofuse::cuda::ops
