// Decode by contracts int16-1 and exact-2 where there is a TMA: a CTA owns one row and one set of heads, and some of
// the row's key blocks. One warp keeps loads of digits in flight, tiles of keys and of values in turn; four work on
// them in step. CTAs that have one block each may form a cluster and fold the row's heads from each other's shared
// memory: no merge. Where rows are the only ones of their sequences, rotary can be left to these kernels, too.
#include "kernels/cuda/attention/int16/decode_roles_sm90.cuh"

namespace reprofuse::cuda::int16::ops {
namespace {

// Bits: equal reference::attention_int16, or attention_exact2, once attention_merge has folded the partials.
template <typename S>
__global__ __launch_bounds__(S::kThreads,
                             S::kCtasPerSm) void attention_decode_stream(const __grid_constant__ DecodeParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<StreamShared<S>*>(memory);
  let_next_kernel_start();
  const StreamWork at(p);
  init_barriers(shared);
  if (threadIdx.x >= kRowsThreads) return bring_tiles<S>(p, at, shared);
  fma1::ops::Rotation rotation{};
  if (p.rotates()) rotation = rotation_of(p, at, S::kDim / 2);
  wait_for_previous_kernel();
  if (at.count == 0) return;
  const QueryRow row = DecodeQueries{at}(own_query());
  Totals<S> total;
  work_on_tiles<S>(p, at, rotation, shared, [&](int block, const QuerySoftmax& softmax, const Tile<S>& values) {
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
  auto& shared = *reinterpret_cast<StreamShared<S>*>(memory);
  let_next_kernel_start();
  const StreamWork at(p);
  init_barriers(shared);
  fma1::ops::Rotation rotation{};
  if (threadIdx.x < kRowsThreads && p.rotates()) rotation = rotation_of(p, at, S::kDim / 2);
  if (threadIdx.x >= kRowsThreads)
    bring_tiles<S>(p, at, shared);
  else
    wait_for_previous_kernel();
  if (threadIdx.x < kRowsThreads && at.count > 0) {
    work_on_tiles<S>(p, at, rotation, shared, [&](int, const QuerySoftmax& softmax, const Tile<S>& values) {
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
  if (threadIdx.x < kRowsThreads && at.key_blocks > 0) fold_cluster<S>(p, at, shared);
  ptx::cluster_sync();  // no CTA may go while another reads from it
#endif
}

template <typename N, StreamShape kShape>
AttentionKernel kernel_of_shape(bool cluster) {
  using S = Stream<N, kShape>;
  static_assert(fits_shared(sizeof(StreamShared<S>), S::kCtasPerSm, kSmSharedBytesSm90));
  return {.function = cluster ? reinterpret_cast<const void*>(&attention_decode_cluster<S>)
                              : reinterpret_cast<const void*>(&attention_decode_stream<S>),
          .threads = S::kThreads,
          .shared_bytes = sizeof(StreamShared<S>)};
}

}  // namespace

template <>
AttentionKernel stream_kernel<TwoDigits>(int head_dim, bool cluster) {
  using N = TwoDigits;
  if (head_dim == 64) return kernel_of_shape<N, StreamShape{.head_dim = 64, .stages = 5, .ctas_per_sm = 2}>(cluster);
  if (head_dim == 128) return kernel_of_shape<N, StreamShape{.head_dim = 128, .stages = 3, .ctas_per_sm = 2}>(cluster);
  return {};
}

template <>
AttentionKernel stream_kernel<ThreeDigits>(int head_dim, bool cluster) {
  using N = ThreeDigits;
  if (head_dim == 64) return kernel_of_shape<N, StreamShape{.head_dim = 64, .stages = 3, .ctas_per_sm = 2}>(cluster);
  if (head_dim == 128) return kernel_of_shape<N, StreamShape{.head_dim = 128, .stages = 4, .ctas_per_sm = 1}>(cluster);
  return {};
}

}  // namespace reprofuse::cuda::int16::ops
