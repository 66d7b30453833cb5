// Attention by contracts int16-1 and exact-2 on any device. Decode: a CTA owns one row and one set of heads, and some
// of the row's key blocks. Prefill: a few rows times the heads of one set, and all key blocks that they see. Digits
// come from the pages straight into registers, the keys of the next block while this one's values are summed.
#include "kernels/cuda/attention/integer/queries_sm80.cuh"
#include "kernels/cuda/attention/merge_sm80.cuh"

namespace reprofuse::cuda::integer_attention {
namespace {

// All digits of 16 bytes in each lane: two steps of a product. The bytes are terms in an order of their own, the same
// on both sides.
template <typename N>
__device__ inline void multiply(DigitSums<N>& sums, const uint4 (&left)[N::kDigits], const uint4 (&right)[N::kDigits]) {
#pragma unroll
  for (int i = 0; i < N::kDigits; ++i) {
    ptx::mma_m16n8k32_s8(sums.by[i], left[0].x, left[1].x, left[0].y, left[1].y, right[i].x, right[i].y);
    ptx::mma_m16n8k32_s8(sums.by[i], left[0].z, left[1].z, left[0].w, left[1].w, right[i].z, right[i].w);
  }
  if constexpr (N::kDigits == 3) {
    ptx::mma_m16n8k32_s8(sums.by[3], left[2].x, 0, left[2].y, 0, right[0].x, right[0].y);
    ptx::mma_m16n8k32_s8(sums.by[3], left[2].z, 0, left[2].w, 0, right[0].z, right[0].w);
    ptx::mma_m16n8k32_s8(sums.by[3], 0, left[2].x, 0, left[2].y, right[1].x, right[1].y);
    ptx::mma_m16n8k32_s8(sums.by[3], 0, left[2].z, 0, left[2].w, right[1].z, right[1].w);
  }
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
  template <int kDigits>
  __device__ const std::uint8_t* page(const void* cache, const AttentionParams& p, int head_dim) const {
    return static_cast<const std::uint8_t*>(cache) + (head * head_dim * kDigits << p.kv.page_shift);
  }
};

__device__ inline uint4 load16(const std::uint8_t* from) {
  return __ldcg(reinterpret_cast<const uint4*>(from));
}

// Digits of the warp's keys: element groups of 16 that differ by lane, 64 elements of the head in all.
template <typename S>
__device__ inline void load_keys(const AttentionParams& p, const QueryGroup& at, const Block& block, int piece,
                                 uint4 (&keys)[kTiles][S::N::kDigits]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, head_dim = S::head_dim(p);
  const int dims = piece * (kPieceDims / 16) + lane % 4;  // in sixteens
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int key = warp * kWarpKeys + tile * kCoreRows, page = block.page(key / kKeyGroup);
    for (uint4& digit : keys[tile]) digit = make_uint4(0, 0, 0, 0);
    if (page < 0 || (!S::kAhead && dims >= head_dim / 16)) continue;
    const Place place(p, at, page, block.first + key);
    const std::uint8_t* from = place.template page<S::N::kDigits>(p.kv.keys, p, head_dim) +
                               (place.slot / kCoreRows * (head_dim / 16) + dims) * kCoreBytes + lane / 4 * 16;
#pragma unroll
    for (int digit = 0; digit < S::N::kDigits; ++digit)
      keys[tile][digit] = load16(from + (static_cast<std::int64_t>(digit * head_dim) << p.kv.page_shift));
  }
}

// Digits of eight elements' values, of all keys: groups of 16 that differ by lane.
template <typename S>
__device__ inline void load_values(const AttentionParams& p, const QueryGroup& at, const Block& block, int dim_group,
                                   uint4 (&values)[2][S::N::kDigits]) {
  const int lane = threadIdx.x % kWarp, head_dim = S::head_dim(p);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int group = half * 4 + lane % 4, page = block.page(group);
    for (uint4& digit : values[half]) digit = make_uint4(0, 0, 0, 0);
    if (page < 0 || (!S::kAhead && dim_group >= head_dim / kCoreRows)) continue;
    const Place place(p, at, page, block.first + group * kKeyGroup);
    const std::uint8_t* from = place.template page<S::N::kDigits>(p.kv.values, p, head_dim) +
                               (place.slot / kKeyGroup * (head_dim / kCoreRows) + dim_group) * kCoreBytes +
                               lane / 4 * 16;
#pragma unroll
    for (int digit = 0; digit < S::N::kDigits; ++digit)
      values[half][digit] = load16(from + (static_cast<std::int64_t>(digit * head_dim) << p.kv.page_shift));
  }
}

template <typename S>
__device__ inline void score_keys(const AttentionParams& p, const QueryGroup& at, const Block& block,
                                  const QueryRow& row, const Shared<typename S::N>& shared,
                                  const uint4 (&keys)[S::kPieces][kTiles][S::N::kDigits], Scores& own) {
  using N = typename S::N;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, query = lane / 4;
  DigitSums<N> sums[kTiles];
  const auto add = [&](int piece, const uint4(&digits)[kTiles][N::kDigits]) {
    const int d = piece * kPieceDims + lane % 4 * 16;
    uint4 left[N::kDigits];
#pragma unroll
    for (int i = 0; i < N::kDigits; ++i) left[i] = *reinterpret_cast<const uint4*>(&shared.query[i][query][d]);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) multiply(sums[tile], left, digits[tile]);
  };
  if constexpr (S::kAhead) {
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) add(piece, keys[piece]);
  } else {
    for (int piece = 0; piece < ceil_div(S::head_dim(p), kPieceDims); ++piece) {
      uint4 digits[kTiles][N::kDigits];
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
    own.set(p, row, factor, tile, block.first + key, sums[tile], key_units, value_units);
  }
}

// The block's weighted sums of the thread's elements, given to take(i, sums).
template <typename S, typename Take>
__device__ inline void sum_values(const AttentionParams& p, const QueryGroup& at, const Block& block,
                                  const Shared<typename S::N>& shared,
                                  const uint4 (&values)[S::kAhead ? S::kDimGroups : 1][2][S::N::kDigits],
                                  const Take& take) {
  using N = typename S::N;
  const int lane = threadIdx.x % kWarp, query = lane / 4;
  uint4 weights[2][N::kDigits];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int place = (half * 4 + lane % 4) * kKeyGroup;
#pragma unroll
    for (int digit = 0; digit < N::kDigits; ++digit)
      weights[half][digit] = *reinterpret_cast<const uint4*>(&shared.weights[digit][query][place]);
  }
#pragma unroll
  for (int i = 0; i < S::kDimGroups; ++i) {
    const int group = Totals<S>::group(i);
    if (!S::kAhead && group >= S::head_dim(p) / kCoreRows) break;
    DigitSums<N> sums;
    const auto multiply_halves = [&](const uint4(&own)[2][N::kDigits]) {
#pragma unroll
      for (int half = 0; half < 2; ++half) multiply(sums, weights[half], own[half]);
    };
    if constexpr (S::kAhead) {
      multiply_halves(values[i]);
    } else {
      uint4 own[2][N::kDigits];
      load_values<S>(p, at, block, group, own);
      multiply_halves(own);
    }
    take(i, make_float2(sums.value(0), sums.value(1)));
  }
}

// Main loop over blocks first, first + step, ... below `end`: scores, weights, weighted sums. Calls
// take_block(index, softmax, block, values) for each, which has to call sum_values().
template <typename S, typename RowOf, typename TakeBlock>
__device__ inline void walk_blocks(const AttentionParams& p, const QueryGroup& at, const RowOf& row_of,
                                   Shared<typename S::N>& shared, int first, int end, int step,
                                   const TakeBlock& take_block) {
  constexpr int kValueGroups = S::kAhead ? S::kDimGroups : 1;
  uint4 keys[S::kPieces][kTiles][S::N::kDigits], values[kValueGroups][2][S::N::kDigits];
  const auto fetch_keys = [&](const Block& block) {
#pragma unroll
    for (int piece = 0; S::kAhead && piece < S::kPieces; ++piece) load_keys<S>(p, at, block, piece, keys[piece]);
  };
  const auto fetch_values = [&](const Block& block) {
#pragma unroll
    for (int i = 0; S::kAhead && i < S::kDimGroups; ++i) load_values<S>(p, at, block, Totals<S>::group(i), values[i]);
  };
  const QueryRow row = row_of(own_query());
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
    const QuerySoftmax softmax = weigh_keys(scores, shared, [] { __syncthreads(); });
    take_block(i, softmax, block, values);
    if (more) fetch_values(next_block);
    block = next_block;
  }
}

// Folds a block into the thread's totals.
template <typename S, typename Values>
__device__ inline void fold_block(const AttentionParams& p, const QueryGroup& at, const Block& block,
                                  const QuerySoftmax& next, const Shared<typename S::N>& shared, const Values& values,
                                  Totals<S>& total) {
  const auto factors = total.fold_head(next);
  sum_values<S>(p, at, block, shared, values, [&](int i, float2 sums) { total.fold(factors, i, sums); });
}

// Bits: equal reference::attention_int16, or attention_exact2, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(kFewQueriesThreads,
                             kDirectCtasPerSm) void attention_decode(const __grid_constant__ AttentionParams p) {
  __shared__ Shared<typename S::N> shared;
  let_next_kernel_start();
  const DecodeWork at(p);
  wait_for_previous_kernel();
  if (!at.has_work()) return;
  const QueryGroup group{at.sequence, at.heads.kv_head, at.range.begin, at.range.end};
  const DecodeQueries row_of{at};
  const QueryRow row = row_of(own_query());
  Totals<S> total;
  walk_blocks<S>(p, group, row_of, shared, at.first_block + blockIdx.x, at.first_block + at.key_blocks, p.splits,
                 [&](int i, const QuerySoftmax& softmax, const Block& block, const auto& values) {
                   if (p.splits == 1) {
                     fold_block<S>(p, group, block, softmax, shared, values, total);
                     return;
                   }
                   const Partial partial(p, at, row, i);
                   sum_values<S>(p, group, block, shared, values,
                                 [&](int j, float2 sums) { partial.store<S>(p, j, sums); });
                   partial.store_head(p, softmax);
                 });
  if (p.splits == 1) store_result<S>(p, row, total);
}

// Bits: equal reference::attention_int16, or attention_exact2.
template <typename S>
__global__ __launch_bounds__(kFewQueriesThreads,
                             kDirectCtasPerSm) void attention_prefill_rows(const __grid_constant__ AttentionParams p) {
  __shared__ Shared<typename S::N> shared;
  let_next_kernel_start();
  wait_for_previous_kernel();
  const kernels::Chunk chunk = p.chunks[blockIdx.z];
  const ops::HeadSet heads(p);
  const int tile_rows = kFewQueries / p.set_heads;
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
                 [&](int, const QuerySoftmax& softmax, const Block& block, const auto& values) {
                   fold_block<S>(p, group, block, softmax, shared, values, total);
                 });
  store_result<S>(p, row_of(own_query()), total);
}

// What a thread holds at once: totals, digits of keys and of values in flight, sums of keys, and a query's digits.
template <typename S>
constexpr int live_registers() {
  using N = typename S::N;
  constexpr int kVectors = (S::kPieces * kTiles + (S::kAhead ? 2 * S::kDimGroups : 0) + 1) * N::kDigits;
  return (sizeof(Totals<S>) + kVectors * sizeof(uint4) + kTiles * sizeof(DigitSums<N>)) / 4;
}

template <typename S>
AttentionKernel kernel_of_shape(void (*function)(AttentionParams)) {
  static_assert(
      live_registers<S>() + 24 <= registers_per_thread(kFewQueriesThreads, kDirectCtasPerSm),
      "totals, digits, sums and some 24 registers of addresses must fit what kDirectCtasPerSm CTAs leave a thread");
  static_assert(fits_shared(sizeof(Shared<typename S::N>), kDirectCtasPerSm, kMinSmSharedBytes),
                "every device must hold kDirectCtasPerSm CTAs");
  return {.function = reinterpret_cast<const void*>(function), .threads = kFewQueriesThreads, .shared_bytes = 0};
}

// make<S>() of the shape for such heads. Three digits leave no registers for loads ahead.
template <typename N, typename Make>
AttentionKernel kernel_for_heads(int head_dim, const Make& make) {
  if constexpr (N::kDigits == 2) {
    if (head_dim == 128) return make.template operator()<FewQueries<N, FewQueriesShape{.head_dim = 128}>>();
    if (head_dim == 64) return make.template operator()<FewQueries<N, FewQueriesShape{.head_dim = 64}>>();
  }
  return make.template operator()<FewQueries<N, FewQueriesShape{.head_dim = 0}>>();
}

}  // namespace

template <typename N>
AttentionKernel decode_kernel(int head_dim) {
  return kernel_for_heads<N>(head_dim, [&]<typename S>() { return kernel_of_shape<S>(&attention_decode<S>); });
}

template <typename N>
AttentionKernel prefill_rows_kernel(int head_dim) {
  return kernel_for_heads<N>(head_dim, [&]<typename S>() { return kernel_of_shape<S>(&attention_prefill_rows<S>); });
}

template <typename N>
AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small) {
  return ops::merge_kernel_of<FoldDigits<N>>(head_dim, key_blocks, small);
}

template AttentionKernel decode_kernel<TwoDigits>(int);
template AttentionKernel decode_kernel<ThreeDigits>(int);
template AttentionKernel prefill_rows_kernel<TwoDigits>(int);
template AttentionKernel prefill_rows_kernel<ThreeDigits>(int);
template AttentionKernel merge_kernel<TwoDigits>(int, int, bool);
template AttentionKernel merge_kernel<ThreeDigits>(int, int, bool);

}  // namespace reprofuse::cuda::integer_attention
