#include "kernels/cuda/attention.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include "base/math.hpp"
#include "kernels/cuda/attention_params.hpp"
#include "kernels/cuda/kv_view_host.hpp"
#include "kernels/cuda/ops_launch.hpp"

namespace reprofuse::cuda {
namespace {

using namespace fma1::ops;  // NOLINT(google-build-using-namespace): the kernels of this operation

constexpr int kMostDecodeChunk = 4;  // rows: a batch of chunks no longer than this is decoded row by row
constexpr int kDecodeRounds = 16;    // of blocks that run at once, when the keys allow it
constexpr std::size_t kMaxPartialBytes = std::size_t{256} << 20;

// Key blocks of one row, at most.
int key_blocks_of(int max_keys, int window) {
  const int all = ceil_div(max_keys, kKeyBlock);
  return window > 0 ? std::min(all, window / kKeyBlock + 2) : all;
}

std::size_t partial_bytes(std::int64_t slots, int heads, int head_dim, int key_blocks) {
  const auto bytes = checked_product(slots, heads, key_blocks, head_dim + 2, sizeof(float));
  return bytes ? static_cast<std::size_t>(*bytes) : SIZE_MAX;
}

int device_attribute(int ordinal, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

int element_bytes(const kernels::KvPages& kv) {
  return static_cast<int>(dtype_bytes(kv.dtype));
}

int set_count(const kernels::AttentionCall& call) {
  return ceil_div(call.heads / call.kv.kv_heads, kMostSetHeads);
}

int set_heads_of(const kernels::AttentionCall& call) {
  return ceil_div(call.heads / call.kv.kv_heads, set_count(call));
}

dim3 decode_grid(const kernels::AttentionCall& call, int blocks, std::int64_t slots) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(call.kv.kv_heads * set_count(call)),
          static_cast<unsigned>(slots)};
}

std::int64_t slots_of(const kernels::AttentionCall& call, AttentionKernels kernels) {
  return kernels == AttentionKernels::kDecode ? call.batch.rows : call.batch.chunk_count;
}

// The blocks of a cluster that has a key block of the row each.
int cluster_blocks(const kernels::AttentionCall& call) {
  const auto key_blocks = static_cast<unsigned>(key_blocks_of(call.batch.max_keys, call.window));
  return static_cast<int>(std::bit_ceil(std::max(key_blocks, 2U)));
}

void check_call(const kernels::AttentionCall& call) {
  const kernels::KvPages& kv = call.kv;
  require_attention_shape(call.heads, kv.kv_heads, kv.head_dim);
  require_rows("attention", call.q.rows);
  require(call.batch.rows <= kMostGridYZ && call.batch.chunk_count <= kMostGridYZ &&
              std::int64_t{kv.kv_heads} * set_count(call) <= kMostGridYZ,
          "attention: {} rows in {} chunks and {} key-value heads; the CUDA backend takes at most {} of each",
          call.batch.rows, call.batch.chunk_count, kv.kv_heads, kMostGridYZ);
}

AttentionParams params_of(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule) {
  AttentionParams p{};
  p.q = call.q.data;
  p.out = call.out.data;
  p.q_stride = call.q.stride;
  p.out_stride = call.out.stride;
  p.chunks = call.batch.chunks;
  p.positions = call.batch.positions;
  p.sequences = call.batch.sequences;
  p.kv = view_of("attention", call.kv, call.batch);
  p.heads = call.heads;
  p.group = call.heads / call.kv.kv_heads;
  p.sets = set_count(call);
  p.set_heads = set_heads_of(call);
  p.scale = call.scale;
  p.window = call.window;
  p.q_aligned = reinterpret_cast<std::uintptr_t>(call.q.data) % 16 == 0 && call.q.stride % 4 == 0;
  p.op = launch.op;
  p.record = record_of(launch);
  p.prefill_from = schedule.kernels == AttentionKernels::kPrefill ? 1 : 2;
  p.slot_is_row = schedule.kernels == AttentionKernels::kDecode;
  p.splits = schedule.cluster ? cluster_blocks(call) : schedule.splits;
  p.key_blocks = key_blocks_of(call.batch.max_keys, call.window);
  p.one_buffer = schedule.one_buffer;
  p.prefetch = schedule.prefetch;
  const std::int64_t partials = slots_of(call, schedule.kernels) * p.heads * p.key_blocks;
  p.weighted = reinterpret_cast<float*>(static_cast<unsigned char*>(launch.workspace) + kWorkspaceHead);
  p.max_and_sum = reinterpret_cast<float2*>(p.weighted + partials * p.kv.head_dim);
  return p;
}

AttentionKernel cluster_kernel(const kernels::AttentionCall& call, int blocks) {
  const int head_dim = call.kv.head_dim, set_heads = set_heads_of(call);
  return call.kv.dtype == DType::kBF16 ? cluster_kernel_bf16(head_dim, set_heads, blocks)
                                       : cluster_kernel_f32(head_dim, set_heads, blocks);
}

GridShape cluster_shape(dim3 grid, const AttentionKernel& kernel, int blocks) {
  return {.grid = grid, .threads = kernel.threads, .shared_bytes = kernel.shared_bytes, .cluster = blocks};
}

// How many clusters of a kernel a device holds never changes, so one answer of the driver is enough for all threads.
class KnownClusters {
 public:
  int at_once(int ordinal, const AttentionKernel& kernel, int blocks) {
    const std::lock_guard lock(mutex_);
    const std::tuple key(ordinal, kernel.function, blocks);
    if (const auto known = counts_.find(key); known != counts_.end()) return known->second;
    const DeviceScope device(ordinal);
    const dim3 one_cluster(static_cast<unsigned>(blocks));
    const int clusters = clusters_at_once(kernel.function, cluster_shape(one_cluster, kernel, blocks));
    if (clusters > 0) counts_.emplace(key, clusters);  // none may be a failure that passes, so it is asked again
    return clusters;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, const void*, int>, int> counts_;  // by device, kernel and blocks of a cluster
};

void launch_clusters(const Launch& launch, const kernels::AttentionCall& call, const AttentionParams& p,
                     std::int64_t slots) {
  require(attention_clusters_at_once(launch, call) > 0,
          "attention: clusters of {} blocks with pages of {} keys and heads of {} do not fit", p.splits,
          call.kv.page_size, p.kv.head_dim);
  const AttentionKernel kernel = cluster_kernel(call, p.splits);
  check(launch_kernel(kernel.function, cluster_shape(decode_grid(call, p.splits, slots), kernel, p.splits), p,
                      launch.stream),
        "attention_decode_cluster");
}

void launch_decode(const Launch& launch, const kernels::AttentionCall& call, const AttentionParams& p,
                   std::int64_t slots) {
  if (p.splits > 1) {
    const std::size_t bytes = kWorkspaceHead + partial_bytes(slots, p.heads, p.kv.head_dim, p.key_blocks);
    require(launch.workspace_bytes >= bytes, "attention: a workspace of {} bytes, but {} are needed",
            launch.workspace_bytes, bytes);
  }
  const bool bf16 = call.kv.dtype == DType::kBF16;
  const void* decode =
      bf16 ? decode_kernel_bf16(p.kv.head_dim, p.set_heads) : decode_kernel_f32(p.kv.head_dim, p.set_heads);
  const GridShape shape{
      .grid = decode_grid(call, p.splits, slots),
      .threads = kDecodeThreads,
      .shared_bytes = decode_shared_bytes(p.kv.head_dim, p.set_heads, element_bytes(call.kv), p.one_buffer)};
  check(launch_kernel(decode, shape, p, launch.stream), "attention_decode");
  if (p.splits == 1) return;
  const AttentionKernel merge = merge_kernel(p.kv.head_dim, p.key_blocks);
  const GridShape merge_shape{.grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(slots)),
                              .threads = merge.threads,
                              .shared_bytes = merge.shared_bytes};
  check(launch_kernel(merge.function, merge_shape, p, launch.stream), "attention_merge");
}

void launch_prefill(const Launch& launch, const kernels::AttentionCall& call, const AttentionParams& p) {
  const AttentionKernel kernel =
      call.kv.dtype == DType::kBF16 ? prefill_kernel_bf16(p.kv.head_dim) : prefill_kernel_f32(p.kv.head_dim);
  const int tiles = ceil_div(call.batch.max_chunk_rows, kPrefillQueries / p.set_heads);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(p.kv.kv_heads * p.sets),
                                     static_cast<unsigned>(call.batch.chunk_count)),
                        .threads = kernel.threads,
                        .shared_bytes = kernel.shared_bytes};
  check(launch_kernel(kernel.function, shape, p, launch.stream), "attention_prefill");
}

}  // namespace

namespace fma1::ops {

// Keys and values, the queries, the weights and the maxima, as DecodeShared lays them out.
int decode_shared_bytes(int head_dim, int set_heads, int element, bool one_buffer) {
  const int heads = set_heads <= 2 ? 2 : set_heads <= 4 ? 4 : kMostSetHeads;
  return (one_buffer ? 1 : 2) * kKeyBlock * head_dim * element + heads * (head_dim + kKeyBlock + 1) * 4;
}

}  // namespace fma1::ops

void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  if (head_dim % kHeadDimStep != 0 || head_dim < kHeadDimStep || head_dim > kMostHeadDim)
    fail(ErrorCode::kUnsupported, "attention: head_dim {}; the CUDA backend takes multiples of {} up to {}", head_dim,
         kHeadDimStep, kMostHeadDim);
  require(kv_heads > 0 && heads % kv_heads == 0, "attention: {} heads are no multiple of {} key-value heads", heads,
          kv_heads);
}

std::size_t attention_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys) {
  const auto slots =
      std::max<std::int64_t>(chunk_count, std::min<std::int64_t>(rows, std::int64_t{kMostDecodeChunk} * chunk_count));
  const std::size_t bytes = partial_bytes(slots, heads, head_dim, key_blocks_of(max_keys, 0));
  return kWorkspaceHead + std::min(bytes, kMaxPartialBytes);
}

int attention_clusters_at_once(const Launch& launch, const kernels::AttentionCall& call) {
  static KnownClusters known;
  const int blocks = cluster_blocks(call), head_dim = call.kv.head_dim;
  if (blocks > kMostClusterBlocks || call.kv.page_size != kKeyBlock || (head_dim != 64 && head_dim != 128)) return 0;
  return known.at_once(launch.ordinal, cluster_kernel(call, blocks), blocks);
}

AttentionSchedule choose_attention_schedule(const Launch& launch, const kernels::AttentionCall& call) {
  const kernels::Batch& batch = call.batch;
  AttentionSchedule schedule{.kernels = AttentionKernels::kBoth, .splits = 1, .one_buffer = false, .prefetch = false};
  if (batch.max_chunk_rows <= kMostDecodeChunk) {
    schedule.kernels = AttentionKernels::kDecode;
  } else if (batch.rows == batch.max_chunk_rows * batch.chunk_count) {  // no chunk has a single row
    schedule.kernels = AttentionKernels::kPrefill;
    return schedule;  // the rest is about decode
  }
  schedule.one_buffer = decode_shared_bytes(call.kv.head_dim, set_heads_of(call), element_bytes(call.kv), false) >
                        device_attribute(launch.ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  const int key_blocks = key_blocks_of(batch.max_keys, call.window);
  const std::int64_t slots = slots_of(call, schedule.kernels);
  if (partial_bytes(slots, call.heads, call.kv.head_dim, key_blocks) > kMaxPartialBytes) return schedule;
  const std::int64_t round =
      std::int64_t{kDecodeBlocksAtOnce} * device_attribute(launch.ordinal, cudaDevAttrMultiProcessorCount);
  const std::int64_t shares = slots * call.kv.kv_heads * set_count(call);
  schedule.splits = static_cast<int>(std::clamp<std::int64_t>(ceil_div(kDecodeRounds * round, shares), 1, key_blocks));
  schedule.cluster = shares <= attention_clusters_at_once(launch, call);
  schedule.prefetch = !schedule.cluster && shares * schedule.splits <= round;  // later rounds do not start early
  return schedule;
}

void attention_with(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule) {
  if (call.q.rows == 0) return;
  check_call(call);
  const DeviceScope device(launch.ordinal);
  const AttentionParams params = params_of(launch, call, schedule);
  const std::int64_t slots = slots_of(call, schedule.kernels);
  if (schedule.kernels != AttentionKernels::kPrefill && schedule.cluster) launch_clusters(launch, call, params, slots);
  if (schedule.kernels != AttentionKernels::kPrefill && !schedule.cluster) launch_decode(launch, call, params, slots);
  if (schedule.kernels != AttentionKernels::kDecode) launch_prefill(launch, call, params);
}

void attention(const Launch& launch, const kernels::AttentionCall& call) {
  if (call.q.rows == 0) return;
  attention_with(launch, call, choose_attention_schedule(launch, call));
}

}  // namespace reprofuse::cuda
