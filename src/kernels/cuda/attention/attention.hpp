// Attention of fma-1: how its work is split, with an entry point for tests and benches that runs a given schedule. And
// what all contracts share: phases, the shapes that are taken, what the sizes of a call come to, rotary embedding. No
// schedule changes a bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/math.hpp"
#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device_site.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/op_calls.hpp"

namespace reprofuse::cuda {

enum class AttentionPhases { kDecode, kPrefill, kBoth };

enum class DecodeBy {
  kDirect,   // threads fetch keys and values from the pages themselves: on any device, for any shape
  kStream,   // the TMA brings them; the kernel is warp-specialised
  kCluster,  // likewise, to a cluster whose CTAs have a key block of the row each and fold it: no splits
};

struct AttentionSchedule {
  AttentionPhases phases;  // kDecode: every row; kBoth: decode for chunks of one row, prefill for the others
  int splits;              // decode: CTAs that share the keys of a row; 1: no partials, no merge
  bool one_buffer;         // direct decode: keys and values take turns in shared memory
  bool prefetch;           // direct decode: keys and values come to the L2 while the kernels ahead still run
  DecodeBy decode = DecodeBy::kDirect;
  bool small_merge = false;  // the merge for a device with little shared memory
  int stages = 0;            // decode by stream: tiles in shared memory, two or more; 0: as many as there is room for
};

// The tiles that a CTA which streams has room for, so that two CTAs fit an SM, or else one; 0: the device has no TMA,
// the shape does not suit it, or not even two tiles fit.
int attention_stream_stages(const DeviceSite& site, const kernels::AttentionCall& call);

// Clusters that the device holds at once, if each has a row and some heads, and each of its CTAs a key block; 0: the
// shape does not fit into clusters.
int attention_clusters_at_once(const DeviceSite& site, const kernels::AttentionCall& call);

void attention(const DeviceSite& site, const kernels::AttentionCall& call);
// The workspace that it needs, head included, for at most so many chunks, rows and keys.
std::size_t attention_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys);
// Throws kUnsupported for heads that attention does not take, by any contract.
void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim);

AttentionSchedule choose_attention_schedule(const DeviceSite& site, const kernels::AttentionCall& call);
void attention_with(const DeviceSite& site, const kernels::AttentionCall& call, const AttentionSchedule& schedule);

void rotary(const DeviceSite& site, const kernels::RotaryCall& call);
// Of any contract: `kernel` is one of ops::rotary_and_store<...>.
void rotary_with(const DeviceSite& site, const kernels::RotaryCall& call, const void* kernel);
ops::RotaryParams rotary_params(const kernels::RotaryCall& call);

// The kernels' view of the pages; refuses those that they cannot read.
inline KvView view_of(const char* op, const kernels::KvPages& kv, const kernels::Batch& batch) {
  require(kernels::is_page_size(kv.page_size), "{}: page size {} is not a power of two from {} up", op, kv.page_size,
          kernels::kMinPageSize);
  require(kv.dtype != DType::kF16, "{}: keys and values in f16 are not supported", op);
  return {.keys = kv.keys,
          .values = kv.values,
          .key_units = static_cast<std::uint8_t*>(kv.key_units),
          .value_units = static_cast<std::uint8_t*>(kv.value_units),
          .page_table = batch.page_table,
          .page_table_stride = batch.page_table_stride,
          .kv_heads = kv.kv_heads,
          .head_dim = kv.head_dim,
          .page_shift = std::countr_zero(static_cast<unsigned>(kv.page_size))};
}

}  // namespace reprofuse::cuda

// Of any contract: what the sizes of a call come to, for the choice of a schedule, and for the launch.
namespace reprofuse::cuda::ops {

inline constexpr int kMaxDecodeChunk = 4;  // rows: a batch of chunks no longer than this is decoded row by row
inline constexpr std::size_t kMaxAttentionPartialBytes = std::size_t{256} << 20;

inline AttentionPhases phases_of(const kernels::Batch& batch) {
  if (batch.max_chunk_rows <= kMaxDecodeChunk) return AttentionPhases::kDecode;
  const bool has_single_rows = batch.rows != batch.max_chunk_rows * batch.chunk_count;
  return has_single_rows ? AttentionPhases::kBoth : AttentionPhases::kPrefill;
}

// Key blocks of one row, at most.
inline int key_blocks_of(int max_keys, int window, int key_block = kKeyBlock) {
  const int all = ceil_div(max_keys, key_block);
  return window > 0 ? std::min(all, window / key_block + 2) : all;
}

// A partial has so many floats beside its weighted sums: maximum and sum, and of integers a scale.
inline constexpr int kPartialHead = 2, kIntegerPartialHead = 3;

inline std::size_t partial_bytes(std::int64_t decode_items, int heads, int head_dim, int key_blocks,
                                 int partial_head = kPartialHead) {
  const auto bytes = checked_product(decode_items, heads, key_blocks, head_dim + partial_head, sizeof(float));
  return bytes ? static_cast<std::size_t>(*bytes) : SIZE_MAX;
}

// Of any batch with so many rows in so many chunks.
inline std::size_t workspace_bytes_of(int rows, int chunk_count, const auto& bytes_of_items) {
  const auto decode_items =
      std::max<std::int64_t>(chunk_count, std::min<std::int64_t>(rows, std::int64_t{kMaxDecodeChunk} * chunk_count));
  return kWorkspaceHead + std::min<std::size_t>(bytes_of_items(decode_items), kMaxAttentionPartialBytes);
}

// What every kernel of a call is given, whatever the contract: all but how decode cuts its keys and where partials lie.
void check_attention_call(const kernels::AttentionCall& call);
AttentionParams attention_params(const DeviceSite& site, const kernels::AttentionCall& call, AttentionPhases phases);
void place_partials(const DeviceSite& site, std::int64_t decode_items, AttentionParams& p);  // in the workspace
dim3 decode_grid(const kernels::AttentionCall& call, int ctas, std::int64_t decode_items);
int known_clusters_at_once(int ordinal, const AttentionKernel& kernel, int ctas);  // asks the driver but once

inline int element_bytes(const kernels::KvPages& kv) {
  return static_cast<int>(dtype_bytes(kv.dtype));
}

inline int set_count(const kernels::AttentionCall& call) {
  return ceil_div(call.heads / call.kv.kv_heads, kMaxSetHeads);
}

inline int set_heads_of(const kernels::AttentionCall& call) {
  return ceil_div(call.heads / call.kv.kv_heads, set_count(call));
}

inline std::int64_t decode_items_of(const kernels::AttentionCall& call, AttentionPhases phases) {
  return phases == AttentionPhases::kDecode ? call.batch.rows : call.batch.chunk_count;
}

// The CTAs of a cluster that has a key block of the row each.
inline int cluster_ctas(const kernels::AttentionCall& call, int key_block = kKeyBlock) {
  const auto key_blocks = static_cast<unsigned>(key_blocks_of(call.batch.max_keys, call.window, key_block));
  return static_cast<int>(std::bit_ceil(std::max(key_blocks, 2U)));
}

// What of a call decides how decode is cut.
struct DecodeSizes {
  std::int64_t row_heads;  // rows, or chunks, times sets of heads
  int key_blocks;          // of one row, at most
  int max_splits;          // for which partials fit
  int sm_count;
  int max_shared_bytes;  // of a CTA
};

DecodeSizes decode_sizes(const DeviceSite& site, const kernels::AttentionCall& call, AttentionPhases phases,
                         int key_block = kKeyBlock, int partial_head = kPartialHead);

// Into how many parts a row's keys are cut so that CTAs, ctas_per_sm at once, fill the device `waves` times.
inline int splits_for_waves(const DecodeSizes& sizes, int waves, int ctas_per_sm) {
  const std::int64_t ctas = std::int64_t{waves} * ctas_per_sm * sizes.sm_count;
  return static_cast<int>(std::clamp<std::int64_t>(ceil_div(ctas, sizes.row_heads), 1, sizes.max_splits));
}

// Of those with the least time_of(splits), the fewest.
inline int fastest_splits(int max_splits, const auto& time_of) {
  int best = 1;
  auto best_time = time_of(1);
  for (int splits = 2; splits <= max_splits; ++splits)
    if (const auto time = time_of(splits); time < best_time) {
      best = splits;
      best_time = time;
    }
  return best;
}

// The kernels of fma-1 for a call. Calls make<Kv>() for the format of keys and values.
template <typename Make>
auto kernel_of_format(const kernels::AttentionCall& call, const Make& make) {
  return call.kv.dtype == DType::kBF16 ? make.template operator()<Bf16Kv>() : make.template operator()<F32Kv>();
}

inline AttentionKernel decode_kernel(const kernels::AttentionCall& call, bool one_buffer) {
  const int head_dim = call.kv.head_dim, set_heads = set_heads_of(call);
  return kernel_of_format(call, [&]<typename Kv>() -> AttentionKernel {
    return {.function = decode_kernel<Kv>(head_dim, set_heads),
            .threads = kDecodeThreads,
            .shared_bytes = decode_shared_bytes(head_dim, set_heads, element_bytes(call.kv), one_buffer)};
  });
}

inline AttentionKernel cluster_kernel(const kernels::AttentionCall& call, int ctas) {
  return kernel_of_format(
      call, [&]<typename Kv>() { return cluster_kernel<Kv>(call.kv.head_dim, set_heads_of(call), ctas); });
}

inline AttentionKernel stream_kernel(const kernels::AttentionCall& call, int stages) {
  return kernel_of_format(
      call, [&]<typename Kv>() { return stream_kernel<Kv>(call.kv.head_dim, set_heads_of(call), stages); });
}

inline PrefillKernel prefill_kernel(const kernels::AttentionCall& call) {
  return kernel_of_format(call, [&]<typename Kv>() { return prefill_kernel<Kv>(call.kv.head_dim); });
}

// How decode is launched. Params is AttentionParams, or what adds to it.

// p.splits CTAs are a cluster, which folds its row: there is no merge.
template <typename Params>
void launch_clusters(const DeviceSite& site, const kernels::AttentionCall& call, const Params& p,
                     std::int64_t decode_items, const AttentionKernel& kernel) {
  const GridShape shape{.grid = decode_grid(call, p.splits, decode_items),
                        .threads = kernel.threads,
                        .shared_bytes = kernel.shared_bytes,
                        .cluster = p.splits};
  check(launch_kernel(kernel.function, shape, p, site.stream), "attention_decode_cluster");
}

// Decode, and where p.splits CTAs share a row the merge of the partials, which take so many bytes of the workspace.
template <typename Params>
void launch_decode_and_merge(const DeviceSite& site, const kernels::AttentionCall& call, const Params& p,
                             std::int64_t decode_items, const AttentionKernel& decode, const AttentionKernel& merge,
                             std::size_t partial_bytes) {
  if (p.splits > 1)
    require(site.workspace_bytes >= kWorkspaceHead + partial_bytes,
            "attention: a workspace of {} bytes, but {} are needed", site.workspace_bytes,
            kWorkspaceHead + partial_bytes);
  const GridShape shape{.grid = decode_grid(call, p.splits, decode_items),
                        .threads = decode.threads,
                        .shared_bytes = decode.shared_bytes};
  check(launch_kernel(decode.function, shape, p, site.stream), "attention_decode");
  if (p.splits == 1) return;
  const GridShape merge_shape{.grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(decode_items)),
                              .threads = merge.threads,
                              .shared_bytes = merge.shared_bytes};
  check(launch_kernel(merge.function, merge_shape, static_cast<const AttentionParams&>(p), site.stream),
        "attention_merge");
}

}  // namespace reprofuse::cuda::ops
