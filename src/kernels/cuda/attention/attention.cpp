// Which kernels attention by fma-1 takes, how many CTAs share a row, and their launches; and of any contract what its
// kernels are given, and the clusters that a device holds at once.
#include "kernels/cuda/attention/attention.hpp"

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda {
namespace ops {

static_assert(kernels::kMaxBatchRows <= kMaxGridYZ, "else a pass that the engine allows would fail here");

dim3 decode_grid(const kernels::AttentionCall& call, int ctas, std::int64_t decode_items) {
  return {static_cast<unsigned>(ctas), static_cast<unsigned>(call.kv.kv_heads * set_count(call)),
          static_cast<unsigned>(decode_items)};
}

void check_attention_call(const kernels::AttentionCall& call) {
  const kernels::KvPages& kv = call.kv;
  require_attention_shape(call.heads, kv.kv_heads, kv.head_dim);
  require_rows("attention", call.q.rows);
  require(call.batch.rows <= kMaxGridYZ && call.batch.chunk_count <= kMaxGridYZ &&
              std::int64_t{kv.kv_heads} * set_count(call) <= kMaxGridYZ,
          "attention: {} rows in {} chunks and {} key-value heads; the CUDA backend takes at most {} of each",
          call.batch.rows, call.batch.chunk_count, kv.kv_heads, kMaxGridYZ);
}

AttentionParams attention_params(const DeviceSite& site, const kernels::AttentionCall& call, AttentionPhases phases) {
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
  p.op = site.op;
  p.record = record_of(site);
  p.prefill_from = phases == AttentionPhases::kPrefill ? 1 : 2;
  p.item_is_row = phases == AttentionPhases::kDecode;
  return p;
}

void place_partials(const DeviceSite& site, std::int64_t decode_items, AttentionParams& p) {
  const std::int64_t partials = decode_items * p.heads * p.key_blocks;
  p.weighted = reinterpret_cast<float*>(static_cast<unsigned char*>(site.workspace) + kWorkspaceHead);
  p.max_and_sum = reinterpret_cast<float2*>(p.weighted + partials * p.kv.head_dim);
  p.scales = reinterpret_cast<float*>(p.max_and_sum + partials);
}

DecodeSizes decode_sizes(const DeviceSite& site, const kernels::AttentionCall& call, AttentionPhases phases,
                         int key_block, int partial_head) {
  const std::int64_t decode_items = decode_items_of(call, phases);
  const int key_blocks = key_blocks_of(call.batch.max_keys, call.window, key_block);
  const bool partials_fit =
      partial_bytes(decode_items, call.heads, call.kv.head_dim, key_blocks, partial_head) <= kMaxAttentionPartialBytes;
  return {.row_heads = decode_items * call.kv.kv_heads * set_count(call),
          .key_blocks = key_blocks,
          .max_splits = partials_fit ? key_blocks : 1,
          .sm_count = device_attribute(site.ordinal, cudaDevAttrMultiProcessorCount),
          .max_shared_bytes = device_attribute(site.ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin)};
}

}  // namespace ops

namespace {

using namespace ops;  // NOLINT(google-build-using-namespace): the kernels of this operation

constexpr int kDecodeWaves = 16;  // when the keys allow as many: direct decode

// How many clusters of a kernel a device holds never changes, so one answer of the driver is enough for all threads.
class KnownClusters {
 public:
  int at_once(int ordinal, const AttentionKernel& kernel, int ctas) {
    const std::lock_guard lock(mutex_);
    const std::tuple key(ordinal, kernel.function, ctas);
    if (const auto known = counts_.find(key); known != counts_.end()) return known->second;
    const DeviceScope device(ordinal);
    const GridShape one_cluster{.grid = dim3(static_cast<unsigned>(ctas)),
                                .threads = kernel.threads,
                                .shared_bytes = kernel.shared_bytes,
                                .cluster = ctas};
    const int clusters = clusters_at_once(kernel.function, one_cluster);
    if (clusters > 0) counts_.emplace(key, clusters);  // none may be a failure that passes, so it is asked again
    return clusters;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, const void*, int>, int> counts_;  // by device, kernel and CTAs of a cluster
};

// The TMA brings a page of a head in one piece, which must be the keys, or the values, of one block.
bool suits_tma(const kernels::KvPages& kv) {
  return kv.page_size == kKeyBlock && (kv.head_dim == 64 || kv.head_dim == 128);
}

// The shared memory of an SM.
class StreamRoom {
 public:
  explicit StreamRoom(int ordinal)
      : max_(device_attribute(ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin)),
        room_(device_attribute(ordinal, cudaDevAttrMaxSharedMemoryPerMultiprocessor)),
        reserved_(device_attribute(ordinal, cudaDevAttrReservedSharedMemoryPerBlock)) {}

  bool holds(int ctas, int bytes) const { return bytes <= max_ && ctas * (bytes + reserved_) <= room_; }

 private:
  int max_, room_, reserved_;
};

// Whether decode by the TMA is the faster way: with three tiles each, two CTAs hide each other's waits. With less room
// nothing was measured.
bool should_stream(const DeviceSite& site, const kernels::AttentionCall& call) {
  constexpr int kEnoughStages = 3;
  return attention_stream_stages(site, call) >= kEnoughStages &&
         StreamRoom(site.ordinal).holds(kStreamCtasPerSm, stream_kernel(call, kEnoughStages).shared_bytes);
}

// What decode by the TMA takes. Time is counted in the bytes that an SM's share of the bandwidth reads in it; the
// constants fit `attention_cuda --sweep` on an H200 with the heads of Llama-3.2-3B.
class StreamTime {
 public:
  StreamTime(const kernels::AttentionCall& call, const DecodeSizes& sizes) : sizes_(sizes) {
    const std::int64_t bytes = std::int64_t{2} * kKeyBlock * call.kv.head_dim * element_bytes(call.kv);
    const std::int64_t partial = std::int64_t{4} * (call.kv.head_dim + 2) * set_heads_of(call);
    const std::int64_t work = ceil_div<std::int64_t>(sizes.row_heads * sizes.key_blocks, sizes.sm_count);
    read_ = work * bytes;
    merge_ = kMerge + kPartialTraffic * partial * work + kMergeOfPartial * sizes.key_blocks;
  }

  std::int64_t of(int splits) const {
    const std::int64_t ctas = ceil_div<std::int64_t>(sizes_.row_heads * splits, sizes_.sm_count);
    const std::int64_t one_after_another = ceil_div<std::int64_t>(ctas, kStreamCtasPerSm);
    const std::int64_t latency = one_after_another * ceil_div(sizes_.key_blocks, splits) * kKeyBlockLatency;
    return std::max(read_, latency) + (splits > 1 ? merge_ : 0);
  }

 private:
  static constexpr std::int64_t kKeyBlockLatency = 62'000;  // of a CTA, from one key block to the next
  static constexpr std::int64_t kMerge = 111'000, kMergeOfPartial = 800;
  static constexpr std::int64_t kPartialTraffic = 4;  // a partial is written, read, and waited for

  DecodeSizes sizes_;
  std::int64_t read_ = 0, merge_ = 0;
};

}  // namespace

std::size_t attention_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys) {
  return workspace_bytes_of(rows, chunk_count, [&](std::int64_t decode_items) {
    return partial_bytes(decode_items, heads, head_dim, key_blocks_of(max_keys, 0));
  });
}

int attention_stream_stages(const DeviceSite& site, const kernels::AttentionCall& call) {
  if (!suits_tma(call.kv)) return 0;
  const DeviceScope device(site.ordinal);
  KernelFacts kernel;
  check(look_up_kernel(stream_kernel(call, kMaxTileStages).function, kernel), "looking up attention_decode_stream");
  if (!kernel.for_sm90) return 0;
  const StreamRoom room(site.ordinal);
  for (const int ctas : {kStreamCtasPerSm, 1})
    for (int stages = kMaxTileStages; stages >= kMinTileStages; --stages)
      if (room.holds(ctas, stream_kernel(call, stages).shared_bytes)) return stages;
  return 0;
}

namespace ops {

int known_clusters_at_once(int ordinal, const AttentionKernel& kernel, int ctas) {
  static KnownClusters known;
  return known.at_once(ordinal, kernel, ctas);
}

}  // namespace ops

int attention_clusters_at_once(const DeviceSite& site, const kernels::AttentionCall& call) {
  const int ctas = cluster_ctas(call);
  if (ctas > kMaxClusterCtas || !suits_tma(call.kv)) return 0;
  return known_clusters_at_once(site.ordinal, cluster_kernel(call, ctas), ctas);
}

AttentionSchedule choose_attention_schedule(const DeviceSite& site, const kernels::AttentionCall& call) {
  AttentionSchedule schedule{.phases = phases_of(call.batch), .splits = 1, .one_buffer = false, .prefetch = false};
  if (schedule.phases == AttentionPhases::kPrefill) return schedule;  // the rest is about decode
  const DecodeSizes sizes = decode_sizes(site, call, schedule.phases);
  schedule.one_buffer =
      decode_shared_bytes(call.kv.head_dim, set_heads_of(call), element_bytes(call.kv), false) > sizes.max_shared_bytes;
  schedule.small_merge = merge_kernel(call.kv.head_dim, sizes.key_blocks, false).shared_bytes > sizes.max_shared_bytes;
  if (sizes.row_heads <= attention_clusters_at_once(site, call)) {
    schedule.decode = DecodeBy::kCluster;
  } else if (should_stream(site, call)) {
    const int one_wave = splits_for_waves(sizes, 1, kStreamCtasPerSm);  // more gain nothing
    const StreamTime time(call, sizes);
    schedule.decode = DecodeBy::kStream;
    schedule.splits = fastest_splits(one_wave, [&](int splits) { return time.of(splits); });
  } else {
    schedule.splits = splits_for_waves(sizes, kDecodeWaves, kDecodeCtasPerSm);
    // Later waves do not start early.
    schedule.prefetch = sizes.row_heads * schedule.splits <= std::int64_t{kDecodeCtasPerSm} * sizes.sm_count;
  }
  return schedule;
}

namespace {

AttentionParams params_of(const DeviceSite& site, const kernels::AttentionCall& call,
                          const AttentionSchedule& schedule) {
  AttentionParams p = attention_params(site, call, schedule.phases);
  p.splits = schedule.decode == DecodeBy::kCluster ? cluster_ctas(call) : schedule.splits;
  p.key_blocks = key_blocks_of(call.batch.max_keys, call.window);
  p.one_buffer = schedule.one_buffer;
  p.prefetch = schedule.prefetch;
  if (schedule.decode == DecodeBy::kStream) {
    const int max_stages = attention_stream_stages(site, call);
    p.stages = schedule.stages > 0 ? schedule.stages : max_stages;
    require(p.stages >= kMinTileStages && p.stages <= max_stages,
            "attention: {} tiles of pages of {} keys and heads of {}; this device streams at most {}", p.stages,
            call.kv.page_size, call.kv.head_dim, max_stages);
  }
  place_partials(site, decode_items_of(call, schedule.phases), p);
  return p;
}

void launch_decode(const DeviceSite& site, const kernels::AttentionCall& call, const AttentionParams& p,
                   const AttentionSchedule& schedule) {
  const std::int64_t decode_items = decode_items_of(call, schedule.phases);
  if (schedule.decode == DecodeBy::kCluster) {
    require(attention_clusters_at_once(site, call) > 0,
            "attention: clusters of {} CTAs with pages of {} keys and heads of {} do not fit", p.splits,
            call.kv.page_size, p.kv.head_dim);
    return launch_clusters(site, call, p, decode_items, cluster_kernel(call, p.splits));
  }
  launch_decode_and_merge(
      site, call, p, decode_items,
      schedule.decode == DecodeBy::kStream ? stream_kernel(call, p.stages) : decode_kernel(call, p.one_buffer),
      merge_kernel(p.kv.head_dim, p.key_blocks, schedule.small_merge),
      partial_bytes(decode_items, p.heads, p.kv.head_dim, p.key_blocks));
}

void launch_prefill(const DeviceSite& site, const kernels::AttentionCall& call, const AttentionParams& p) {
  const PrefillKernel kernel = prefill_kernel(call);
  const int tiles = ceil_div(call.batch.max_chunk_rows * p.set_heads, kernel.queries);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(p.kv.kv_heads * p.sets), static_cast<unsigned>(tiles),
                                     static_cast<unsigned>(call.batch.chunk_count)),
                        .threads = kernel.threads,
                        .shared_bytes = kernel.shared_bytes};
  check(launch_kernel(kernel.function, shape, p, site.stream), "attention_prefill");
}

}  // namespace

void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  if (head_dim % kHeadDimStep != 0 || head_dim < kHeadDimStep || head_dim > kMaxHeadDim)
    fail(ErrorCode::kUnsupported, "attention: head_dim {}; the CUDA backend takes multiples of {} up to {}", head_dim,
         kHeadDimStep, kMaxHeadDim);
  require(kv_heads > 0 && heads % kv_heads == 0, "attention: {} heads are no multiple of {} key-value heads", heads,
          kv_heads);
}

void attention_with(const DeviceSite& site, const kernels::AttentionCall& call, const AttentionSchedule& schedule) {
  if (call.q.rows == 0) return;
  check_attention_call(call);
  const DeviceScope device(site.ordinal);
  const AttentionParams params = params_of(site, call, schedule);
  if (schedule.phases != AttentionPhases::kPrefill) launch_decode(site, call, params, schedule);
  if (schedule.phases != AttentionPhases::kDecode) launch_prefill(site, call, params);
}

void attention(const DeviceSite& site, const kernels::AttentionCall& call) {
  if (call.q.rows == 0) return;
  attention_with(site, call, choose_attention_schedule(site, call));
}

}  // namespace reprofuse::cuda
