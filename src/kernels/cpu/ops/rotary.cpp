#include <algorithm>
#include <vector>

#include "kernels/cpu/ops/model_ops.hpp"
#include "kernels/cpu/ops/model_ops_kernels.hpp"
#include "kernels/cpu/parallel_rows.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {
namespace {

using kernels::RotaryCall;

// Stores values `stride` elements apart.
void store_elements(const float* values, std::int64_t count, DType dtype, void* to, std::int64_t stride) {
  if (dtype == DType::kBF16) {
    auto* halves = static_cast<std::uint16_t*>(to);
    for (std::int64_t i = 0; i < count; ++i)
      halves[i * stride] = static_cast<std::uint16_t>(round_bf16_finite(values[i]));
  } else {
    auto* floats = static_cast<float*>(to);
    for (std::int64_t i = 0; i < count; ++i) floats[i * stride] = values[i];
  }
}

// One row: rotates its queries in place, its keys by way of `key`, which holds a head, and stores its values.
void rotate_row(const ModelOpsKernels& kernels, const RotaryCall& call, std::int64_t m, float* key) {
  const kernels::KvPages& kv = call.kv;
  const std::int64_t position = call.batch.positions[m];
  RotaryHead head{.head = nullptr,
                  .weight = call.q_norm,
                  .eps = call.eps,
                  .head_dim = kv.head_dim,
                  .cos = call.cos + position * (kv.head_dim / 2),
                  .sin = call.sin + position * (kv.head_dim / 2),
                  .rotated = nullptr};
  float* q = call.q.data + m * call.q.stride;
  for (std::int64_t i = 0; i + kv.head_dim <= call.q.cols; i += kv.head_dim) {
    head.head = head.rotated = q + i;
    kernels.rotary_head(head);
  }
  head.weight = call.k_norm;
  head.rotated = key;
  for (std::int64_t h = 0; h < kv.kv_heads; ++h) {
    const KvSlot slot = find_slot(kv, call.batch, call.batch.sequences[m], position, h);
    head.head = call.k.data + m * call.k.stride + h * kv.head_dim;
    kernels.rotary_head(head);
    store_elements(key, kv.head_dim, kv.dtype, slot.key, kv.page_size);
    store_elements(call.v.data + m * call.v.stride + h * kv.head_dim, kv.head_dim, kv.dtype, slot.value, 1);
  }
}

}  // namespace

void rotary(const kernels::CpuTarget& backend, const RotaryCall& call) {
  const ModelOpsKernels& kernels = model_ops_kernels(backend.isa);
  const auto head_dim = static_cast<std::size_t>(call.kv.head_dim);
  std::vector<float> keys(static_cast<std::size_t>(backend.pool->threads()) * head_dim);
  for_each_row(*backend.pool, call.q.rows, call.q.cols + 2 * call.k.cols, [&](std::int64_t m, int worker) {
    rotate_row(kernels, call, m, keys.data() + static_cast<std::size_t>(worker) * head_dim);
  });
}

}  // namespace reprofuse::cpu
