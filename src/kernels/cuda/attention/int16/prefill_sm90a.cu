// Prefill by contract int16-1 on compute capability 9.0: a CTA owns 128 queries, which are the heads of one set times
// as many rows as fit, and walks all key blocks that they see. One warp keeps TMA loads of digits in flight, one makes
// numbers of units, and two warpgroups have 64 queries each: while one multiplies, the other softens its scores.
// Built for sm_90a alone: the instructions exist nowhere else.
#include "kernels/cuda/attention/int16/prefill_queries_sm90a.cuh"

namespace reprofuse::cuda::int16::ops {
namespace {

// Digits of a left operand, in registers or in shared memory: that of 32 terms.
template <int kSteps>
struct DigitRegisters {
  const std::uint32_t (&high_)[kSteps][4], (&low_)[kSteps][4];
  __device__ const std::uint32_t* high(int step) const { return high_[step]; }
  __device__ const std::uint32_t* low(int step) const { return low_[step]; }
};

template <int kPlane>
struct DigitMemory {
  std::uint64_t descriptor;
  __device__ std::uint64_t high(int step) const { return descriptor + step * Descriptor::advance(2 * kCoreBytes); }
  __device__ std::uint64_t low(int step) const { return high(step) + Descriptor::advance(kPlane); }
};

// What leads from a right operand's high digits to the low ones, to the next 32 terms, and to the next part of the
// columns; in bytes.
struct RightStrides {
  int plane, step, part;
};

// sums = 256 * (high * high) + high * low + low * high, high products first, so that one set of registers is enough.
// `take(part, sums)` has the sums of a part of the columns, while the next part is multiplied.
template <int kN, int kParts, int kSteps, RightStrides kRight, typename Left, typename Take>
__device__ inline void multiply_digits(const Left& left, std::uint64_t right, int (&sums)[kParts][kN / kParts / 2],
                                       const Take& take) {
  const auto column = [&](int part, int step, int plane) {
    return right + part * Descriptor::advance(kRight.part) + step * Descriptor::advance(kRight.step) +
           plane * Descriptor::advance(kRight.plane);
  };
  ptx::wgmma_fence();
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      ptx::wgmma_m64k32_s8<kN / kParts>(sums[part], left.high(step), column(part, step, 0), step > 0);
    ptx::wgmma_commit_group();
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    ptx::wgmma_wait_group<kParts - 1>();
    ptx::wgmma_settled(sums[part]);
#pragma unroll
    for (int& sum : sums[part]) sum <<= 8;
    ptx::wgmma_settled(sums[part]);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      ptx::wgmma_m64k32_s8<kN / kParts>(sums[part], left.low(step), column(part, step, 0), 1);
      ptx::wgmma_m64k32_s8<kN / kParts>(sums[part], left.high(step), column(part, step, 1), 1);
    }
    ptx::wgmma_commit_group();
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    if (part + 1 < kParts)
      ptx::wgmma_wait_group<1>();
    else
      ptx::wgmma_wait_group<0>();
    ptx::wgmma_settled(sums[part]);
    take(part, sums[part]);
  }
}

template <typename S>
__device__ inline std::uint64_t key_descriptor(const PrefillShared<S>& shared, int stage) {
  return ptx::SharedMemoryDescriptor{.start_address = ptx::shared_address(shared.keys[stage]),
                                     .leading_byte_offset = kCoreBytes,
                                     .stride_byte_offset = S::kHeadDim * kCoreRows}
      .word();
}

template <typename S>
__device__ inline std::uint64_t value_descriptor(const PrefillShared<S>& shared, int stage) {
  return ptx::SharedMemoryDescriptor{.start_address = ptx::shared_address(shared.values[stage]),
                                     .leading_byte_offset = S::kHeadDim * kKeyGroup,
                                     .stride_byte_offset = kCoreBytes}
      .word();
}

// What a math thread has of its rows: blocks folded from left to right.
template <typename S>
struct Totals {
  float weighted[S::kHeadDim / 2] = {};
  float max[2] = {masked_score(), masked_score()}, sum[2] = {};

  // What the next block's weighted sums are folded by; maximum and sum are merged already.
  struct Factors {
    float a[2], b[2];
  };
  __device__ Factors fold_heads(const RowSoftmax (&next)[2]) {
    Factors factors;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Rescale rescale(max[r], next[r].max, next[r].scale);
      const bool seen = next[r].max != masked_score();  // otherwise the row sees no key of the block
      factors.a[r] = seen ? rescale.a : 1.0f;
      factors.b[r] = seen ? rescale.b : 0.0f;
      sum[r] = seen ? rescale.merged_sum(sum[r], next[r].sum) : sum[r];
      max[r] = rescale.max;
    }
    return factors;
  }
  template <int kCount>
  __device__ void fold(const Factors& by, int first, const int (&sums)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      weighted[first + i] =
          fma_rn(weighted[first + i], by.a[i / 2 % 2], __fmul_rn(__int2float_rn(sums[i]), by.b[i / 2 % 2]));
  }

  __device__ void store(const AttentionParams& p, const PrefillTile& tile, const Queries<S>& queries) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!queries.exists(r)) continue;
      float* out =
          p.out + queries.row(tile, r) * p.out_stride + queries.head(tile, r) * S::kHeadDim + threadIdx.x % 4 * 2;
#pragma unroll
      for (int i = 0; i < S::kHeadDim / 8; ++i)
#pragma unroll
        for (int e = 0; e < 2; ++e) out[i * 8 + e] = fma1::ops::finished(weighted[i * 4 + r * 2 + e], sum[r]);
    }
  }
};

// The digits of weights, of a warpgroup's queries and the keys of a stage.
template <typename S>
__device__ inline void weigh_keys(const Queries<S>& queries, const RowsAtBlock<S>& rows, const PrefillShared<S>& shared,
                                  int stage, std::uint32_t (&high)[S::kKeys / 32][4],
                                  std::uint32_t (&low)[S::kKeys / 32][4], RowSoftmax (&result)[2]) {
  constexpr RightStrides kStrides{
      .plane = S::kPlaneBytes, .step = 2 * kCoreBytes, .part = S::kKeys / S::kParts * S::kHeadDim};
  using Softmax = BlockSoftmax<S::kKeys, S::kParts>;
  const BlockFacts<S::kKeys>& facts = shared.facts[stage];
  const bool whole = rows.whole(facts);
  Softmax softmax;
  int sums[S::kParts][Softmax::kSums];
  const auto multiply = [&](const auto& left) {
    multiply_digits<S::kKeys, S::kParts, S::kHeadDim / 32, kStrides>(
        left, key_descriptor(shared, stage), sums, [&](int part, int(&own)[Softmax::kSums]) {
          if (whole)
            softmax.template score<true>(facts, rows, part, own);
          else
            softmax.template score<false>(facts, rows, part, own);
        });
  };
  if constexpr (S::kQueriesInShared)
    multiply(DigitMemory<S::kQueryPlaneBytes>{queries.descriptor});
  else
    multiply(DigitRegisters<S::kHeadDim / 32>{queries.high, queries.low});
  if (whole)
    softmax.template weigh<true>(facts, rows, sums, high, low, result);
  else
    softmax.template weigh<false>(facts, rows, sums, high, low, result);
}

// The weighted sums of a stage's values, folded.
template <typename S>
__device__ inline void sum_values(const PrefillShared<S>& shared, int stage,
                                  const std::uint32_t (&high)[S::kKeys / 32][4],
                                  const std::uint32_t (&low)[S::kKeys / 32][4], const RowSoftmax (&softmax)[2],
                                  Totals<S>& total) {
  constexpr int kPartDims = S::kSlice / S::kParts;
  constexpr RightStrides kStrides{
      .plane = S::kPlaneBytes, .step = 2 * S::kHeadDim * kKeyGroup, .part = kPartDims / kCoreRows * kCoreBytes};
  const auto factors = total.fold_heads(softmax);
  const std::uint64_t values = value_descriptor(shared, stage);
#pragma unroll
  for (int slice = 0; slice < S::kHeadDim / S::kSlice; ++slice) {
    int sums[S::kParts][kPartDims / 2];
    multiply_digits<S::kSlice, S::kParts, S::kKeys / 32, kStrides>(
        DigitRegisters<S::kKeys / 32>{high, low},
        values + slice * Descriptor::advance(S::kSlice / kCoreRows * kCoreBytes), sums,
        [&](int part, const int(&own)[kPartDims / 2]) {
          total.fold(factors, (slice * S::kParts + part) * (kPartDims / 2), own);
        });
  }
}

// A math warpgroup.
template <typename S>
__device__ inline void attend(const AttentionParams& p, const PrefillTile& tile, PrefillShared<S>& shared,
                              int first_block, int blocks) {
  const int warpgroup = threadIdx.x / kWarpgroup;
  const int first_query = warpgroup * kWarpgroupRows, queries_left = tile.queries() - first_query;
  const Queries<S> queries(p, tile, shared.queries[warpgroup]);
  // What the warpgroup's rows see, together.
  const int first_row = first_query / tile.heads.count;
  const int last_row = (min(first_query + kWarpgroupRows, tile.queries()) - 1) / tile.heads.count;
  const KeyRange first_range(p, tile.position + first_row);
  const int begin = first_range.begin, end = queries_left > 0 ? tile.position + last_row + 1 : 0;
  Totals<S> total;
  for (int i = 0; i < blocks; ++i) {
    const auto at = ptx::PipelineState::of_consumer(i, S::kStages);
    const int first_key = (first_block + i) * S::kKeys;
    const bool sees = first_key < end && first_key + S::kKeys > begin;
    std::uint32_t high[S::kKeys / 32][4], low[S::kKeys / 32][4];
    RowSoftmax softmax[2];
    shared.key_pipeline().wait_full(at);
    ptx::mbarrier_wait(&shared.facts_ready[at.stage], at.phase);
    if (sees) weigh_keys<S>(queries, RowsAtBlock<S>(p, tile, queries, first_key), shared, at.stage, high, low, softmax);
    shared.key_pipeline().release(at.stage);
    shared.value_pipeline().wait_full(at);
    if (sees) sum_values<S>(shared, at.stage, high, low, softmax, total);
    shared.value_pipeline().release(at.stage);
  }
  total.store(p, tile, queries);
}

// Bits: equal reference::attention_int16.
template <typename S>
__global__ __launch_bounds__(S::kThreads, 1) void attention_prefill(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<PrefillShared<S>*>(memory);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernel();

  // The CTA's tile
  const kernels::Chunk chunk = p.chunks[blockIdx.z];
  const fma1::ops::HeadSet heads(p);
  const int tile_rows = kPrefillQueries / p.set_heads;
  const int first = (gridDim.x - 1 - blockIdx.x) * tile_rows;  // the longest first
  if (chunk.rows < p.prefill_from || first >= chunk.rows) return;
  const int rows = min(tile_rows, chunk.rows - first), position = chunk.first_position + first;
  const KeyRange range(p, position);
  const PrefillTile tile{chunk.first_row + first, rows, position, chunk.sequence, range.begin, position + rows, heads};
  const int first_block = tile.begin / S::kKeys, blocks = (tile.end + S::kKeys - 1) / S::kKeys - first_block;

  if (threadIdx.x >= S::kMathThreads) {
    ptx::setmaxnreg_dec<S::kProducerRegisters>();
    const int warp = (threadIdx.x - S::kMathThreads) / kWarp;
    if (warp == 0) load_blocks<S>(p, tile, shared, first_block, blocks);
    if (warp == 1) prepare_facts<S>(shared, blocks);
  } else {
    ptx::setmaxnreg_inc<S::kMathRegisters>();
    attend<S>(p, tile, shared, first_block, blocks);
  }
}

template <PrefillShape kShape>
AttentionKernel prefill_kernel_of() {
  using S = Prefill<kShape>;
  static_assert(fits_shared(sizeof(PrefillShared<S>), 1, kSmSharedBytesSm90));
  return {.function = reinterpret_cast<const void*>(&attention_prefill<S>),
          .threads = S::kThreads,
          .shared_bytes = sizeof(PrefillShared<S>)};
}

}  // namespace

AttentionKernel prefill_kernel(int head_dim) {
  switch (head_dim) {
    case 64:
      return prefill_kernel_of<PrefillShape{.head_dim = 64, .keys = kKeyBlock, .stages = 3, .slice = 64, .parts = 2}>();
    case 96:
      return prefill_kernel_of<PrefillShape{.head_dim = 96, .keys = kKeyBlock, .stages = 2, .slice = 96, .parts = 2}>();
    case 128:
      return prefill_kernel_of<PrefillShape{
          .head_dim = 128, .keys = kKeyBlock, .stages = 2, .slice = 128, .parts = 2}>();
    case 256:
      return prefill_kernel_of<PrefillShape{
          .head_dim = 256, .keys = kKeyBlock, .stages = 1, .slice = 64, .parts = 2}>();
    default: return {};
  }
}

}  // namespace reprofuse::cuda::int16::ops
