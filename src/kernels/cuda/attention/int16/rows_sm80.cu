// Attention by contract int16-1 on any device. Decode: a CTA owns one row and one set of heads, and some of the row's
// key blocks. Prefill: a few rows times the heads of one set, and all key blocks that they see.
#include "kernels/cuda/attention/int16/queries_sm80.cuh"

namespace reprofuse::cuda::int16::ops {
namespace {

// Folds a block into the thread's totals.
template <typename S, typename Values>
__device__ inline void fold_block(const AttentionParams& p, const QueryGroup& at, const Block& block,
                                  const BlockSoftmax& next, const Shared& shared, const Values& values,
                                  Totals<S>& total) {
  const Rescale rescale(total.max, next.max, next.scale);
  const bool seen = next.max != masked_score();  // otherwise the query sees no key of the block
  const float a = seen ? rescale.a : 1.0f, b = seen ? rescale.b : 0.0f;
  sum_values<S>(p, at, block, shared, values, [&](int i, float2 sums) {
    total.weighted[i][0] = fma_rn(total.weighted[i][0], a, __fmul_rn(sums.x, b));
    total.weighted[i][1] = fma_rn(total.weighted[i][1], a, __fmul_rn(sums.y, b));
  });
  if (!seen) return;
  total.sum = rescale.merged_sum(total.sum, next.sum);
  total.max = rescale.max;
}

// Bits: equal reference::attention_int16, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(kRowsThreads,
                             kRowsCtasPerSm) void attention_decode(const __grid_constant__ AttentionParams p) {
  __shared__ Shared shared;
  let_next_kernel_start();
  const DecodeWork at(p);
  wait_for_previous_kernel();
  if (!at.has_work()) return;
  const QueryGroup group{at.sequence, at.heads.kv_head, at.range.begin, at.range.end};
  const auto row_of = [&](int query) {
    return QueryRow{at.row, at.heads.first + min(query, at.heads.count - 1), query < at.heads.count, at.range};
  };
  Totals<S> total;
  walk_blocks<S>(p, group, row_of, shared, at.first_block + blockIdx.x, at.first_block + at.key_blocks, p.splits,
                 [&](int i, const BlockSoftmax& softmax, const Block& block, const auto& values) {
                   if (p.splits == 1) {
                     fold_block<S>(p, group, block, softmax, shared, values, total);
                     return;
                   }
                   const QueryRow row = row_of(static_cast<int>(threadIdx.x % kWarp / 4));
                   const std::int64_t partial = at.partial(p, row.head, i - at.first_block);
                   sum_values<S>(p, group, block, shared, values, [&](int j, float2 sums) {
                     if (row.exists)
                       *reinterpret_cast<float2*>(p.weighted + partial * S::head_dim(p) + Totals<S>::first_element(j)) =
                           sums;
                   });
                   if (!row.exists || threadIdx.x >= kWarp || threadIdx.x % 4 != 0) return;
                   p.max_and_sum[partial] = make_float2(softmax.max, softmax.sum);
                   p.scales[partial] = softmax.scale;
                 });
  if (p.splits == 1) store_result<S>(p, row_of(static_cast<int>(threadIdx.x % kWarp / 4)), total);
}

// Bits: equal reference::attention_int16.
template <typename S>
__global__ __launch_bounds__(kRowsThreads,
                             kRowsCtasPerSm) void attention_prefill_rows(const __grid_constant__ AttentionParams p) {
  __shared__ Shared shared;
  let_next_kernel_start();
  wait_for_previous_kernel();
  const kernels::Chunk chunk = p.chunks[blockIdx.z];
  const fma1::ops::HeadSet heads(p);
  const int tile_rows = kRowsQueries / p.set_heads;
  const int first = (gridDim.x - 1 - blockIdx.x) * tile_rows;  // the longest first
  if (chunk.rows < p.prefill_from || first >= chunk.rows) return;
  const int rows = min(tile_rows, chunk.rows - first), position = chunk.first_position + first;
  const auto row_of = [&](int query) {
    const int row = min(query / heads.count, rows - 1);
    return QueryRow{chunk.first_row + first + row, heads.first + query % heads.count, query < rows * heads.count,
                    KeyRange(p, position + row)};
  };
  const QueryGroup group{chunk.sequence, heads.kv_head, KeyRange(p, position).begin, position + rows};
  Totals<S> total;
  walk_blocks<S>(p, group, row_of, shared, group.begin / kKeyBlock, (group.end + kKeyBlock - 1) / kKeyBlock, 1,
                 [&](int, const BlockSoftmax& softmax, const Block& block, const auto& values) {
                   fold_block<S>(p, group, block, softmax, shared, values, total);
                 });
  store_result<S>(p, row_of(static_cast<int>(threadIdx.x % kWarp / 4)), total);
}

using Function = void (*)(AttentionParams);

AttentionKernel kernel_of(Function of_128, Function of_64, Function of_any, int head_dim) {
  return {.function = reinterpret_cast<const void*>(head_dim == 128  ? of_128
                                                    : head_dim == 64 ? of_64
                                                                     : of_any),
          .threads = kRowsThreads,
          .shared_bytes = 0};
}

}  // namespace

AttentionKernel decode_kernel(int head_dim) {
  return kernel_of(attention_decode<RowsShape<128>>, attention_decode<RowsShape<64>>, attention_decode<RowsShape<0>>,
                   head_dim);
}

AttentionKernel prefill_rows_kernel(int head_dim) {
  return kernel_of(attention_prefill_rows<RowsShape<128>>, attention_prefill_rows<RowsShape<64>>,
                   attention_prefill_rows<RowsShape<0>>, head_dim);
}

}  // namespace reprofuse::cuda::int16::ops
