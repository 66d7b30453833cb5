#include "kernels/cuda/attention/attention.hpp"

#include "kernels/cuda/attention/launch_decode.hpp"
#include "kernels/cuda/ops/ops.hpp"

namespace reprofuse::cuda {
namespace ops {

static_assert(kernels::kMaxBatchRows <= kMaxGridYZ, "else a pass that the engine allows would fail here");

dim3 decode_grid(const kernels::AttentionCall& call, int ctas, std::int64_t slots) {
  return {static_cast<unsigned>(ctas), static_cast<unsigned>(call.kv.kv_heads * set_count(call)),
          static_cast<unsigned>(slots)};
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

AttentionParams attention_params(const Launch& launch, const kernels::AttentionCall& call, AttentionPhases phases) {
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
  p.prefill_from = phases == AttentionPhases::kPrefill ? 1 : 2;
  p.slot_is_row = phases == AttentionPhases::kDecode;
  return p;
}

}  // namespace ops

namespace {

using namespace ops;  // NOLINT(google-build-using-namespace): the kernels of this operation

AttentionParams params_of(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule) {
  AttentionParams p = attention_params(launch, call, schedule.phases);
  p.splits = schedule.decode == DecodeBy::kCluster ? cluster_ctas(call) : schedule.splits;
  p.key_blocks = key_blocks_of(call.batch.max_keys, call.window);
  p.one_buffer = schedule.one_buffer;
  p.prefetch = schedule.prefetch;
  if (schedule.decode == DecodeBy::kStream) {
    const int max_stages = attention_stream_stages(launch, call);
    p.stages = schedule.stages > 0 ? schedule.stages : max_stages;
    require(p.stages >= kMinTileStages && p.stages <= max_stages,
            "attention: {} tiles of pages of {} keys and heads of {}; this device streams at most {}", p.stages,
            call.kv.page_size, call.kv.head_dim, max_stages);
  }
  const std::int64_t partials = slots_of(call, schedule.phases) * p.heads * p.key_blocks;
  p.weighted = reinterpret_cast<float*>(static_cast<unsigned char*>(launch.workspace) + kWorkspaceHead);
  p.max_and_sum = reinterpret_cast<float2*>(p.weighted + partials * p.kv.head_dim);
  return p;
}

void launch_decode(const Launch& launch, const kernels::AttentionCall& call, const AttentionParams& p,
                   const AttentionSchedule& schedule) {
  const std::int64_t slots = slots_of(call, schedule.phases);
  if (schedule.decode == DecodeBy::kCluster) {
    require(attention_clusters_at_once(launch, call) > 0,
            "attention: clusters of {} CTAs with pages of {} keys and heads of {} do not fit", p.splits,
            call.kv.page_size, p.kv.head_dim);
    return launch_clusters(launch, call, p, slots, cluster_kernel(call, p.splits));
  }
  launch_decode_and_merge(
      launch, call, p, slots,
      schedule.decode == DecodeBy::kStream ? stream_kernel(call, p.stages) : decode_kernel(call, p.one_buffer),
      merge_kernel(p.kv.head_dim, p.key_blocks, schedule.small_merge),
      partial_bytes(slots, p.heads, p.kv.head_dim, p.key_blocks));
}

void launch_prefill(const Launch& launch, const kernels::AttentionCall& call, const AttentionParams& p) {
  const PrefillKernel kernel = prefill_kernel(call);
  const int tiles = ceil_div(call.batch.max_chunk_rows * p.set_heads, kernel.queries);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(p.kv.kv_heads * p.sets), static_cast<unsigned>(tiles),
                                     static_cast<unsigned>(call.batch.chunk_count)),
                        .threads = kernel.threads,
                        .shared_bytes = kernel.shared_bytes};
  check(launch_kernel(kernel.function, shape, p, launch.stream), "attention_prefill");
}

}  // namespace

void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  if (head_dim % kHeadDimStep != 0 || head_dim < kHeadDimStep || head_dim > kMaxHeadDim)
    fail(ErrorCode::kUnsupported, "attention: head_dim {}; the CUDA backend takes multiples of {} up to {}", head_dim,
         kHeadDimStep, kMaxHeadDim);
  require(kv_heads > 0 && heads % kv_heads == 0, "attention: {} heads are no multiple of {} key-value heads", heads,
          kv_heads);
}

void attention_with(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule) {
  if (call.q.rows == 0) return;
  check_attention_call(call);
  const DeviceScope device(launch.ordinal);
  const AttentionParams params = params_of(launch, call, schedule);
  if (schedule.phases != AttentionPhases::kPrefill) launch_decode(launch, call, params, schedule);
  if (schedule.phases != AttentionPhases::kDecode) launch_prefill(launch, call, params);
}

void attention(const Launch& launch, const kernels::AttentionCall& call) {
  if (call.q.rows == 0) return;
  attention_with(launch, call, choose_attention_schedule(launch, call));
}

}  // namespace reprofuse::cuda
