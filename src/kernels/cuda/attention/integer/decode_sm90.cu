// Decode by contracts int16-1 and exact-2 where there is a TMA: a CTA owns one row and one set of heads, and some of
// the row's key blocks. One warp issues TMA loads, tiles of keys and of values in turn; four math warps compute with
// them in step. CTAs with one block each may form a cluster and fold the row through distributed shared memory.
#include "kernels/cuda/attention/integer/decode_tiles_sm90.cuh"

namespace reprofuse::cuda::integer_attention {
namespace {

// The TMA warp: tile 2 i is the keys of the CTA's i-th block, tile 2 i + 1 its values.
template <typename S>
struct TileLoads {
  const AttentionParams& p;
  const DigitStreamWork& at;
  DigitStreamShared<S>& shared;
  BlockPieces<kKeyBlock, S::kDim, S::N::kDigits> pieces;
  int tile = 0, page = -1, next_page = -1;

  __device__ TileLoads(const AttentionParams& params, const DigitStreamWork& work, DigitStreamShared<S>& shared_)
      : p(params), at(work), shared(shared_), pieces(p, at.sequence, at.heads.kv_head, at.range.begin, at.range.end) {
    if (at.count > 0) page = pieces.page(at.block(p, 0));
  }
  // The CTA's first blocks, into the L2, while the kernels ahead still run. Keys that one of them is about to store are
  // loaded after the wait, as all others are.
  __device__ void prefetch() const {
    constexpr int kBlocks = (S::kStages + 1) / 2;
    for (int i = 0; i < min(kBlocks, at.count); ++i) {
      const int block = at.block(p, i), of_block = pieces.page(block);
      pieces.prefetch_digits(p.kv.keys, block, of_block);
      pieces.prefetch_digits(p.kv.values, block, of_block);
    }
  }
  __device__ void load_until(int last) {
    const ptx::Pipeline pipeline = shared.pipeline();
    for (; tile < last; ++tile) {
      const int i = tile / 2, block = at.block(p, i);
      const auto to = ptx::PipelineState::of_producer(tile, S::kStages);
      DigitTile<S>& stage = shared.tiles[to.stage];
      std::uint64_t* const full = pipeline.full_barrier(to.stage);
      if (tile % 2 == 0) next_page = i + 1 < at.count ? pieces.page(at.block(p, i + 1)) : -1;
      if (tile >= S::kStages) pipeline.wait_empty(to);
      if (tile % 2 == 0) {
        pieces.load_digits(p.kv.keys, block, page, stage.digits, full, pieces.unit_bytes());
        pieces.load_units(block, page, stage.key_units, stage.value_units, full);
      } else {
        pieces.load_digits(p.kv.values, block, page, stage.digits, full);
        page = next_page;
      }
    }
  }
};

// The TMA warp, the wait for the kernels ahead included. Where decode rotates, none of those writes to these pages: all
// other positions were stored by passes before, and a pass begins with copies, for which every kernel waits.
template <typename S>
__device__ inline void load_stages(const DecodeParams& p, const DigitStreamWork& at, DigitStreamShared<S>& shared) {
  TileLoads<S> loads(p, at, shared);
  if (!p.rotates()) {
    loads.prefetch();
    wait_for_previous_kernel();
  } else {
    loads.load_until(min(S::kStages, 2 * at.count));
    const bool has_own = at.count > 0 && at.is_last(at.block(p, at.count - 1));
    const int page = has_own ? p.kv.page_of(at.sequence, at.position()) : 0;
    const ops::Rotation rotation = rotation_of(p, at, S::kDim / 2);
    wait_for_previous_kernel();
    if (has_own) make_own_position<S>(p, at, rotation, page, shared.own);
  }
  loads.load_until(2 * at.count);
}

// The math warps, once the kernels ahead have finished, with digits of the queries in shared memory: calls
// take_block(index, softmax, tile of values) for each block, which has to call sum_tile().
template <typename S, typename TakeBlock>
__device__ inline void attend(const DecodeParams& p, const DigitStreamWork& at, const ops::Rotation& rotation,
                              DigitStreamShared<S>& shared, const TakeBlock& take_block) {
  const DecodeQueries row_of{at};
  const QueryRow row = row_of(own_query());
  const ptx::Pipeline pipeline = shared.pipeline();
  if (p.rotates())
    rotate_queries<S>(p, at, rotation, shared);
  else
    snap_queries<S>(p, row_of, shared.queries);
  sync_math_warps();
  LeftDigits<typename S::N> query[S::kDim / 64][2];
#pragma unroll
  for (int i = 0; i < S::kDim / 32; ++i) query[i / 2][i % 2].load(shared.queries.query, i * 32);
  const float factor = shared.queries.factor[own_query()];
  ptx::PipelineState tile;
  for (int i = 0; i < at.count; ++i) {
    Scores scores;
    ptx::PipelineState of_values = tile;
    of_values.advance(S::kStages);
    pipeline.wait_full(tile);
    if (p.rotates() && at.is_last(at.block(p, i))) {
      pipeline.wait_full(of_values);
      add_own_position<S>(at, shared.own, shared.tiles[tile.stage], shared.tiles[of_values.stage]);
      sync_math_warps();
    }
    score_tile<S>(p, row, factor, at.block(p, i) * kKeyBlock, query, shared.tiles[tile.stage], scores);
    pipeline.release(tile.stage);
    const QuerySoftmax softmax = weigh_keys(scores, shared.queries, sync_math_warps);
    pipeline.wait_full(of_values);
    take_block(at.block(p, i), softmax, shared.tiles[of_values.stage]);
    pipeline.release(of_values.stage);
    tile = of_values;
    tile.advance(S::kStages);
  }
}

template <typename S>
__device__ inline void init_barriers(DigitStreamShared<S>& shared) {
  if (threadIdx.x == 0) {
    shared.pipeline().init(1, kFewQueriesThreads);
    ptx::mbarrier_init(&shared.own.ready, kWarp);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

// Folds the cluster's partials: a warp has 32 elements of one head, a lane one.
template <typename S>
__device__ inline void fold_cluster(const AttentionParams& p, const DigitStreamWork& at,
                                    const DigitStreamShared<S>& shared) {
  const int lane = threadIdx.x % kWarp, step = p.splits * kFewQueriesThreads;
  for (int e = blockIdx.x * kFewQueriesThreads + threadIdx.x; e < at.heads.count * S::kDim; e += step) {
    const int head = e / S::kDim, d = e % S::kDim;
    ops::PartialHead own{masked_score(), 0.0f, 0.0f};
    if (lane < at.key_blocks)
      own = {ptx::ld_shared_cluster(&shared.max[head], lane), ptx::ld_shared_cluster(&shared.sum[head], lane),
             ptx::ld_shared_cluster(&shared.scale[head], lane)};
    float next[kMaxClusterCtas];
#pragma unroll
    for (int i = 0; i < kMaxClusterCtas; ++i)
      next[i] = i < at.key_blocks ? ptx::ld_shared_cluster(&shared.weighted[head][d], i) : 0.0f;
    float max = masked_score(), sum = 0.0f, total = 0.0f;
    const ops::FoldSteps<FoldDigits<typename S::N>> steps(own, &max);
#pragma unroll
    for (int i = 0; i < kMaxClusterCtas; ++i) {
      const float a = __shfl_sync(~0u, steps.a, i), b = __shfl_sync(~0u, steps.b, i);
      const float scaled_sum = __shfl_sync(~0u, steps.scaled_sum, i);
      if (i >= at.key_blocks) continue;
      sum = fma_rn(sum, a, scaled_sum);
      total = fma_rn(total, a, __fmul_rn(next[i], b));
    }
    p.out[at.row * p.out_stride + (at.heads.first + head) * S::kDim + d] = ops::finished(total, sum);
  }
}

// Bits: equal reference::attention_int16, or attention_exact2, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(S::kThreads,
                             S::kCtasPerSm) void attention_decode_stream(const __grid_constant__ DecodeParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<DigitStreamShared<S>*>(memory);
  let_next_kernel_start();
  const DigitStreamWork at(p);
  init_barriers(shared);
  if (threadIdx.x >= kFewQueriesThreads) return load_stages<S>(p, at, shared);
  ops::Rotation rotation{};
  if (p.rotates()) rotation = rotation_of(p, at, S::kDim / 2);
  wait_for_previous_kernel();
  if (at.count == 0) return;
  const QueryRow row = DecodeQueries{at}(own_query());
  Totals<S> total;
  attend<S>(p, at, rotation, shared, [&](int block, const QuerySoftmax& softmax, const DigitTile<S>& values) {
    if (p.splits == 1) {
      const auto factors = total.fold_head(softmax);
      sum_tile<S>(shared.queries, values, [&](int i, float2 sums) { total.fold(factors, i, sums); });
    } else {
      const Partial partial(p, at, row, block);
      sum_tile<S>(shared.queries, values, [&](int i, float2 sums) { partial.store<S>(p, i, sums); });
      partial.store_head(p, softmax);
    }
  });
  if (p.splits == 1) store_result<S>(p, row, total);
#endif
}

// Bits: equal reference::attention_int16, or attention_exact2. The CTAs of a row and set are a cluster, with at most
// one block each.
template <typename S>
__global__ __launch_bounds__(S::kThreads,
                             S::kCtasPerSm) void attention_decode_cluster(const __grid_constant__ DecodeParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<DigitStreamShared<S>*>(memory);
  let_next_kernel_start();
  const DigitStreamWork at(p);
  init_barriers(shared);
  ops::Rotation rotation{};
  if (threadIdx.x < kFewQueriesThreads && p.rotates()) rotation = rotation_of(p, at, S::kDim / 2);
  if (threadIdx.x >= kFewQueriesThreads)
    load_stages<S>(p, at, shared);
  else
    wait_for_previous_kernel();
  if (threadIdx.x < kFewQueriesThreads && at.count > 0) {
    attend<S>(p, at, rotation, shared, [&](int, const QuerySoftmax& softmax, const DigitTile<S>& values) {
      const int query = own_query();
      sum_tile<S>(shared.queries, values, [&](int i, float2 sums) {
        *reinterpret_cast<float2*>(&shared.weighted[query][Totals<S>::first_element(i)]) = sums;
      });
      shared.max[query] = softmax.max;  // all threads of the query alike
      shared.sum[query] = softmax.sum;
      shared.scale[query] = softmax.scale;
    });
  }
  ptx::cluster_sync();
  if (threadIdx.x < kFewQueriesThreads && at.key_blocks > 0) fold_cluster<S>(p, at, shared);
  ptx::cluster_sync();  // no CTA may go while another reads from it
#endif
}

template <typename N, DigitStreamShape kShape>
AttentionKernel kernel_of_shape(bool cluster) {
  using S = DigitStream<N, kShape>;
  static_assert(fits_shared(sizeof(DigitStreamShared<S>), S::kCtasPerSm, kSmSharedBytesSm90),
                "an SM must hold ctas_per_sm CTAs");
  static_assert(live_registers<S>() + 24 <= registers_per_thread(S::kThreads, S::kCtasPerSm),
                "totals, digits, sums and some 24 registers of addresses must fit");
  return {.function = cluster ? reinterpret_cast<const void*>(&attention_decode_cluster<S>)
                              : reinterpret_cast<const void*>(&attention_decode_stream<S>),
          .threads = S::kThreads,
          .shared_bytes = sizeof(DigitStreamShared<S>),
          .ctas_per_sm = S::kCtasPerSm};
}

}  // namespace

template <>
AttentionKernel stream_kernel<TwoDigits>(int head_dim, bool cluster) {
  using N = TwoDigits;
  if (head_dim == 64)
    return kernel_of_shape<N, DigitStreamShape{.head_dim = 64, .stages = 5, .ctas_per_sm = 2}>(cluster);
  if (head_dim == 128)
    return kernel_of_shape<N, DigitStreamShape{.head_dim = 128, .stages = 3, .ctas_per_sm = 2}>(cluster);
  return {};
}

template <>
AttentionKernel stream_kernel<ThreeDigits>(int head_dim, bool cluster) {
  using N = ThreeDigits;
  if (head_dim == 64)
    return kernel_of_shape<N, DigitStreamShape{.head_dim = 64, .stages = 3, .ctas_per_sm = 2}>(cluster);
  if (head_dim == 128)
    return kernel_of_shape<N, DigitStreamShape{.head_dim = 128, .stages = 4, .ctas_per_sm = 1}>(cluster);
  return {};
}

}  // namespace reprofuse::cuda::integer_attention
