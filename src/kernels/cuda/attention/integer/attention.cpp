#include "kernels/cuda/attention/integer/attention.hpp"

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/integer/params.hpp"
#include "kernels/cuda/runtime/device.hpp"

namespace reprofuse::cuda::integer_attention {
namespace {

using ops::decode_items_of;

constexpr int kDecodeWaves = 2;  // when the keys allow as many: direct decode
constexpr int kMaxStreamSplits = 264;

// The kernels of one contract.
struct Kernels {
  const void* (*rotary)();
  AttentionKernel (*decode)(int head_dim);
  AttentionKernel (*prefill_rows)(int head_dim);
  AttentionKernel (*stream)(int head_dim, bool cluster);
  AttentionKernel (*merge)(int head_dim, int key_blocks, bool small);
  AttentionKernel (*prefill)(int head_dim);
};

template <typename N>
constexpr Kernels kKernels{.rotary = rotary_kernel<N>,
                           .decode = decode_kernel<N>,
                           .prefill_rows = prefill_rows_kernel<N>,
                           .stream = stream_kernel<N>,
                           .merge = merge_kernel<N>,
                           .prefill = prefill_kernel<N>};

const Kernels& kernels_of(int digits) {
  return digits == 3 ? kKernels<ThreeDigits> : kKernels<TwoDigits>;
}

std::size_t partial_bytes(std::int64_t decode_items, int heads, int head_dim, int key_blocks) {
  return ops::partial_bytes(decode_items, heads, head_dim, key_blocks, ops::kIntegerPartialHead);
}

// The CTAs of a cluster that has a key block of the row each.
int cluster_ctas(const kernels::AttentionCall& call) {
  return ops::cluster_ctas(call, kKeyBlock);
}

// What decode by the TMA takes with so many splits, in units of the time in which an SM reads a key block. A CTA alone
// takes longer for a block than its share of the bandwidth would let it.
double stream_time(const ops::DecodeSizes& sizes, int ctas_per_sm, int splits) {
  constexpr double kBlockLatency = 1.4, kMerge = 1.7, kPartial = 0.06;
  const std::int64_t at_once = std::int64_t{ctas_per_sm} * sizes.sm_count;
  const double read = static_cast<double>(sizes.row_heads * sizes.key_blocks) / sizes.sm_count;
  const double chain =
      static_cast<double>(ceil_div(sizes.row_heads * splits, at_once) * ceil_div(sizes.key_blocks, splits));
  const double merge = splits > 1 ? kMerge + kPartial * read + 0.015 * sizes.key_blocks : 0.0;
  return std::max(read, chain * kBlockLatency) + merge;
}

DecodeParams params_of(const DeviceSite& site, const kernels::AttentionCall& call, const Schedule& schedule) {
  DecodeParams p{ops::attention_params(site, call, schedule.phases)};
  p.splits = schedule.decode == DecodeBy::kCluster ? cluster_ctas(call) : schedule.splits;
  p.key_blocks = ops::key_blocks_of(call.batch.max_keys, call.window, kKeyBlock);
  ops::place_partials(site, decode_items_of(call, schedule.phases), p);
  return p;
}

void launch_decode(const DeviceSite& site, const kernels::AttentionCall& call, const DecodeParams& p,
                   const Schedule& schedule, int digits) {
  const Kernels& kernels = kernels_of(digits);
  const std::int64_t decode_items = decode_items_of(call, schedule.phases);
  if (schedule.decode == DecodeBy::kCluster) {
    require(clusters_at_once(site, call, digits) > 0, "attention: clusters of {} CTAs do not fit", p.splits);
    return ops::launch_clusters(site, call, p, decode_items, kernels.stream(p.kv.head_dim, true));
  }
  const AttentionKernel merge = kernels.merge(p.kv.head_dim, p.key_blocks, schedule.small_merge);
  const std::size_t partials = partial_bytes(decode_items, p.heads, p.kv.head_dim, p.key_blocks);
  if (schedule.decode == DecodeBy::kStream) {
    require(can_stream(site, call, digits), "attention: this device does not stream heads of {}", p.kv.head_dim);
    ops::launch_decode_and_merge(site, call, p, decode_items, kernels.stream(p.kv.head_dim, false), merge, partials);
  } else {
    const AttentionParams& without_rotary = p;
    ops::launch_decode_and_merge(site, call, without_rotary, decode_items, kernels.decode(p.kv.head_dim), merge,
                                 partials);
  }
}

void launch_prefill(const DeviceSite& site, const kernels::AttentionCall& call, const AttentionParams& p, bool wgmma,
                    int digits) {
  const Kernels& kernels = kernels_of(digits);
  require(!wgmma || has_wgmma(site, call, digits), "attention: no wgmma for heads of {} on this device", p.kv.head_dim);
  const AttentionKernel kernel = wgmma ? kernels.prefill(p.kv.head_dim) : kernels.prefill_rows(p.kv.head_dim);
  const int queries = wgmma ? kPrefillQueries : kFewQueries;
  const int tiles = ceil_div(call.batch.max_chunk_rows, queries / p.set_heads);
  const GridShape shape{.grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(p.kv.kv_heads * p.sets),
                                     static_cast<unsigned>(call.batch.chunk_count)),
                        .threads = kernel.threads,
                        .shared_bytes = kernel.shared_bytes};
  check(launch_kernel(kernel.function, shape, p, site.stream), "attention_prefill");
}

}  // namespace

bool has_wgmma(const DeviceSite& site, const kernels::AttentionCall& call, int digits) {
  const DeviceScope device(site.ordinal);
  return device_attribute(site.ordinal, cudaDevAttrComputeCapabilityMajor) == 9 &&
         kernels_of(digits).prefill(call.kv.head_dim).function != nullptr;
}

bool can_stream(const DeviceSite& site, const kernels::AttentionCall& call, int digits) {
  const AttentionKernel kernel = kernels_of(digits).stream(call.kv.head_dim, false);
  if (kernel.function == nullptr) return false;
  const DeviceScope device(site.ordinal);
  KernelFacts facts;
  check(look_up_kernel(kernel.function, facts), "looking up attention_decode_stream");
  return facts.for_sm90 &&
         kernel.shared_bytes <= device_attribute(site.ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

int clusters_at_once(const DeviceSite& site, const kernels::AttentionCall& call, int digits) {
  const int ctas = cluster_ctas(call);
  if (ctas > kMaxClusterCtas || !can_stream(site, call, digits)) return 0;
  return ops::known_clusters_at_once(site.ordinal, kernels_of(digits).stream(call.kv.head_dim, true), ctas);
}

Schedule choose_schedule(const DeviceSite& site, const kernels::AttentionCall& call, int digits) {
  const Kernels& kernels = kernels_of(digits);
  Schedule schedule{.phases = ops::phases_of(call.batch), .wgmma = has_wgmma(site, call, digits)};
  if (schedule.phases == AttentionPhases::kPrefill) return schedule;  // the rest is about decode
  const ops::DecodeSizes sizes = ops::decode_sizes(site, call, schedule.phases, kKeyBlock, ops::kIntegerPartialHead);
  schedule.small_merge = kernels.merge(call.kv.head_dim, sizes.key_blocks, false).shared_bytes > sizes.max_shared_bytes;
  if (sizes.row_heads <= clusters_at_once(site, call, digits)) {
    schedule.decode = DecodeBy::kCluster;
  } else if (can_stream(site, call, digits)) {
    schedule.decode = DecodeBy::kStream;
    const int ctas_per_sm = kernels.stream(call.kv.head_dim, false).ctas_per_sm;
    schedule.splits = ops::fastest_splits(std::min(sizes.max_splits, kMaxStreamSplits),
                                          [&](int splits) { return stream_time(sizes, ctas_per_sm, splits); });
  } else {
    schedule.splits = ops::splits_for_waves(sizes, kDecodeWaves, kDirectCtasPerSm);
  }
  return schedule;
}

std::size_t workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys) {
  return ops::workspace_bytes_of(rows, chunk_count, [&](std::int64_t decode_items) {
    return partial_bytes(decode_items, heads, head_dim, ceil_div(max_keys, kKeyBlock));
  });
}

// No row may need a key that another row of the pass is about to store.
bool can_rotate(const kernels::AttentionCall& call, const Schedule& schedule) {
  return call.batch.max_chunk_rows == 1 && schedule.phases == AttentionPhases::kDecode &&
         schedule.decode != DecodeBy::kDirect;
}

void attention_with(const DeviceSite& site, const kernels::AttentionCall& call, const Schedule& schedule, int digits,
                    const kernels::RotaryCall* rotary) {
  if (call.q.rows == 0) return;
  ops::check_attention_call(call);
  const DeviceScope device(site.ordinal);
  DecodeParams params = params_of(site, call, schedule);
  if (rotary != nullptr) {
    invariant(can_rotate(call, schedule), "these kernels of attention leave rotary to others");
    params.rotary = rotary_params(*rotary);
  }
  if (schedule.phases != AttentionPhases::kPrefill) launch_decode(site, call, params, schedule, digits);
  if (schedule.phases != AttentionPhases::kDecode) launch_prefill(site, call, params, schedule.wgmma, digits);
}

void rotary(const DeviceSite& site, const kernels::RotaryCall& call, int digits) {
  const int head_dim = call.kv.head_dim;
  require(head_dim % kKeyGroup == 0,
          "rotary: head_dim {}; attention in integers on the CUDA backend takes multiples of {}", head_dim, kKeyGroup);
  rotary_with(site, call, kernels_of(digits).rotary());
}

void attention(const DeviceSite& site, const kernels::AttentionCall& call, int digits) {
  if (call.q.rows == 0) return;
  attention_with(site, call, choose_schedule(site, call, digits), digits);
}

bool rotary_and_attention(const DeviceSite& site, const kernels::RotaryCall& rotary, const kernels::AttentionCall& call,
                          int digits) {
  if (call.q.rows == 0) return false;
  const Schedule schedule = choose_schedule(site, call, digits);
  if (!can_rotate(call, schedule)) return false;
  attention_with(site, call, schedule, digits, &rotary);
  return true;
}

std::int32_t integer_in_page(const void* page, int digits, kernels::Cached which, const kernels::ElementInPage& at) {
  const HeadPage places{static_cast<int>(at.head_dim), static_cast<int>(at.page_size)};
  const auto slot = static_cast<int>(at.slot), element = static_cast<int>(at.element);
  const std::int64_t plane = places.plane_bytes();
  const auto* digit = static_cast<const std::int8_t*>(page) + at.head * digits * plane +
                      (which == kernels::Cached::kKey ? places.key(slot, element) : places.value(slot, element));
  std::int32_t x = 0;
  for (int i = 0; i < digits; ++i) x = 256 * x + digit[i * plane];
  return x;
}

}  // namespace reprofuse::cuda::integer_attention
