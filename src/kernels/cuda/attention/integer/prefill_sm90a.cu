// Prefill by contracts int16-1 and exact-2 on compute capability 9.0, sm_90a alone, warp-specialised: a CTA owns 128
// queries, the heads of one set times as many rows as fit, and walks all key blocks that they see. One warp issues TMA
// loads, one converts units, and of two warpgroups one multiplies while the other computes its softmax.
#include "kernels/cuda/attention/integer/prefill_operands_sm90a.cuh"

namespace reprofuse::cuda::integer_attention {
namespace {

template <typename S>
__device__ inline std::uint64_t key_descriptor(const WgmmaPrefillShared<S>& shared, int stage) {
  return Descriptor{.start_address = ptx::shared_address(shared.keys[stage]),
                    .leading_byte_offset = kCoreBytes,
                    .stride_byte_offset = S::kHeadDim * kCoreRows}
      .word();
}

template <typename S>
__device__ inline std::uint64_t value_descriptor(const WgmmaPrefillShared<S>& shared, int stage) {
  return Descriptor{.start_address = ptx::shared_address(shared.values[stage]),
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
      const Rescale<typename S::N> rescale(max[r], next[r].max, next[r].scale);
      const bool seen = next[r].max != masked_score();  // otherwise the row sees no key of the block
      factors.a[r] = seen ? rescale.a : 1.0f;
      factors.b[r] = seen ? rescale.b : 0.0f;
      sum[r] = seen ? rescale.merged_sum(sum[r], next[r].sum) : sum[r];
      max[r] = rescale.max;
    }
    return factors;
  }
  template <int kCount, typename Value>
  __device__ void fold(const Factors& by, int first, const Value& value) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      weighted[first + i] = fma_rn(weighted[first + i], by.a[i / 2 % 2], __fmul_rn(value(i), by.b[i / 2 % 2]));
  }

  __device__ void store(const AttentionParams& p, const WgmmaPrefillTile& tile, const Queries<S>& queries) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!queries.exists(r)) continue;
      float* out =
          p.out + queries.row(tile, r) * p.out_stride + queries.head(tile, r) * S::kHeadDim + threadIdx.x % 4 * 2;
#pragma unroll
      for (int i = 0; i < S::kHeadDim / 8; ++i)
#pragma unroll
        for (int e = 0; e < 2; ++e) out[i * 8 + e] = ops::finished(weighted[i * 4 + r * 2 + e], sum[r]);
    }
  }
};

// The digits of weights, of a warpgroup's queries and the keys of a stage.
template <typename S>
__device__ inline void weigh_keys(const Queries<S>& queries, const RowsAtBlock<S>& rows,
                                  const WgmmaPrefillShared<S>& shared, int stage,
                                  LeftWords<typename S::N, S::kKeys / 32>& weights, RowSoftmax (&result)[2]) {
  using N = typename S::N;
  constexpr ProductShape kProduct{
      .panels = S::kPanels,
      .columns = S::kKeys / S::kPanels,
      .steps = S::kHeadDim / 32,
      .right = {.plane = S::kPlaneBytes, .step = 2 * kCoreBytes, .panel = S::kKeys / S::kPanels * S::kHeadDim},
      .both_ahead = S::kHeadDim <= 64};
  using Softmax = BlockSoftmax<N, S::kKeys, S::kPanels>;
  const BlockUnits<N, S::kKeys>& units = shared.units[stage];
  const bool whole = rows.whole(units);
  Softmax softmax;
  int sums[S::kPanels][Softmax::kSums];
  const auto multiply = [&](const auto& left) {
    multiply_digits<N, kProduct>(left, key_descriptor(shared, stage), sums, [&](int panel, const auto& value) {
      if (whole)
        softmax.template score<true>(units, rows, panel, value, sums[panel]);
      else
        softmax.template score<false>(units, rows, panel, value, sums[panel]);
    });
  };
  if constexpr (S::kQueriesInShared)
    multiply(DigitMemory<S::kQueryPlaneBytes>{queries.descriptor});
  else
    multiply(DigitRegisters<N, S::kHeadDim / 32>{queries.digits});
  if (whole)
    softmax.template weigh<true>(units, rows, sums, weights, result);
  else
    softmax.template weigh<false>(units, rows, sums, weights, result);
}

// The weighted sums of a stage's values, folded.
template <typename S>
__device__ inline void sum_values(const WgmmaPrefillShared<S>& shared, int stage,
                                  const LeftWords<typename S::N, S::kKeys / 32>& weights,
                                  const RowSoftmax (&softmax)[2], Totals<S>& total) {
  using N = typename S::N;
  constexpr int kPanelDims = S::kSlice / S::kValuePanels;
  constexpr ProductShape kProduct{
      .panels = S::kValuePanels,
      .columns = kPanelDims,
      .steps = S::kKeys / 32,
      .right = {
          .plane = S::kPlaneBytes, .step = 2 * S::kHeadDim * kKeyGroup, .panel = kPanelDims / kCoreRows * kCoreBytes}};
  const auto factors = total.fold_heads(softmax);
  const std::uint64_t values = value_descriptor(shared, stage);
#pragma unroll
  for (int slice = 0; slice < S::kHeadDim / S::kSlice; ++slice) {
    int sums[S::kValuePanels][kPanelDims / 2];
    multiply_digits<N, kProduct>(DigitRegisters<N, S::kKeys / 32>{weights},
                                 values + slice * Descriptor::advance(S::kSlice / kCoreRows * kCoreBytes), sums,
                                 [&](int panel, const auto& value) {
                                   total.template fold<kPanelDims / 2>(
                                       factors, (slice * S::kValuePanels + panel) * (kPanelDims / 2), value);
                                 });
  }
}

// A math warpgroup.
template <typename S>
__device__ inline void attend(const AttentionParams& p, const WgmmaPrefillTile& tile, WgmmaPrefillShared<S>& shared,
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
    LeftWords<typename S::N, S::kKeys / 32> weights;
    RowSoftmax softmax[2];
    shared.key_pipeline().wait_full(at);
    shared.unit_barriers().wait_full(at);
    if (sees) weigh_keys<S>(queries, RowsAtBlock<S>(p, tile, queries, first_key), shared, at.stage, weights, softmax);
    shared.key_pipeline().release(at.stage);
    const auto values_at = ptx::PipelineState::of_consumer(i, S::kValueStages);
    shared.value_pipeline().wait_full(values_at);
    if (sees) sum_values<S>(shared, values_at.stage, weights, softmax, total);
    shared.value_pipeline().release(values_at.stage);
  }
  total.store(p, tile, queries);
}

// Bits: equal reference::attention_int16, or attention_exact2.
template <typename S>
__global__ __launch_bounds__(S::kThreads, 1) void attention_prefill(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<WgmmaPrefillShared<S>*>(memory);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernel();

  // The CTA's tile
  const kernels::Chunk chunk = p.chunks[blockIdx.z];
  const ops::HeadSet heads(p);
  const int tile_rows = kPrefillQueries / p.set_heads;
  const int first = (gridDim.x - 1 - blockIdx.x) * tile_rows;  // the longest first
  if (chunk.rows < p.prefill_from || first >= chunk.rows) return;
  const int rows = min(tile_rows, chunk.rows - first), position = chunk.first_position + first;
  const KeyRange range(p, position);
  const WgmmaPrefillTile tile{chunk.first_row + first, rows, position, chunk.sequence, range.begin,
                              position + rows,         heads};
  const int first_block = tile.begin / S::kKeys, blocks = (tile.end + S::kKeys - 1) / S::kKeys - first_block;

  if (threadIdx.x >= S::kMathThreads) {
    ptx::setmaxnreg_dec<S::kProducerRegisters>();
    const int warp = (threadIdx.x - S::kMathThreads) / kWarp;
    if (warp == 0) load_stages<S>(p, tile, shared, first_block, blocks);
    if (warp == 1) convert_units<S>(shared, blocks);
  } else {
    ptx::setmaxnreg_inc<S::kMathRegisters>();
    attend<S>(p, tile, shared, first_block, blocks);
  }
}

template <typename N, WgmmaPrefillShape kShape>
AttentionKernel prefill_kernel_of() {
  using S = WgmmaPrefill<N, kShape>;
  static_assert(fits_shared(sizeof(WgmmaPrefillShared<S>), 1, kSmSharedBytesSm90), "an SM must hold a CTA");
  return {.function = reinterpret_cast<const void*>(&attention_prefill<S>),
          .threads = S::kThreads,
          .shared_bytes = sizeof(WgmmaPrefillShared<S>)};
}

}  // namespace

template <>
AttentionKernel prefill_kernel<TwoDigits>(int head_dim) {
  using N = TwoDigits;
  constexpr int kKeys = kKeyBlock;
  switch (head_dim) {
    case 64:
      return prefill_kernel_of<N, WgmmaPrefillShape{
                                      .head_dim = 64, .keys = kKeys, .stages = 3, .slice = 64, .panels = 2}>();
    case 96:
      return prefill_kernel_of<N, WgmmaPrefillShape{
                                      .head_dim = 96, .keys = kKeys, .stages = 2, .slice = 96, .panels = 2}>();
    case 128:
      return prefill_kernel_of<N, WgmmaPrefillShape{
                                      .head_dim = 128, .keys = kKeys, .stages = 2, .slice = 128, .panels = 2}>();
    case 256:
      return prefill_kernel_of<N, WgmmaPrefillShape{
                                      .head_dim = 256, .keys = kKeys, .stages = 1, .slice = 64, .panels = 2}>();
    default: return {};
  }
}

// Weighted sums are made a slice of the head after another: two kinds of sums at once, and those of two panels, would
// not fit the registers.
template <>
AttentionKernel prefill_kernel<ThreeDigits>(int head_dim) {
  using N = ThreeDigits;
  constexpr int kKeys = kKeyBlock;
  switch (head_dim) {
    case 64:
      return prefill_kernel_of<N, WgmmaPrefillShape{
                                      .head_dim = 64, .keys = kKeys, .stages = 2, .slice = 64, .panels = 2}>();
    case 96:
      return prefill_kernel_of<N, WgmmaPrefillShape{.head_dim = 96,
                                                    .keys = kKeys,
                                                    .stages = 2,
                                                    .slice = 48,
                                                    .panels = 2,
                                                    .value_stages = 2,
                                                    .value_panels = 1}>();
    case 128:
      return prefill_kernel_of<N, WgmmaPrefillShape{.head_dim = 128,
                                                    .keys = kKeys,
                                                    .stages = 2,
                                                    .slice = 64,
                                                    .panels = 1,
                                                    .value_stages = 1,
                                                    .value_panels = 1}>();
    default: return {};
  }
}

}  // namespace reprofuse::cuda::integer_attention
