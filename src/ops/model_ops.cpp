#include "ops/model_ops.hpp"

#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "kernels/cpu/ops/model_ops.hpp"
#include "kernels/cuda/ops/model_ops.hpp"

namespace reprofuse {
namespace {

// Runs `on_cpu(backend)` or `on_cuda(launch)`, whichever device the scope has. A place that on_cpu returns is an error.
template <typename OnCpu, typename OnCuda>
void dispatch(const OpScope& scope, const NamedOp* op, OnCpu on_cpu, OnCuda on_cuda) {
  const ContextState& state = scope.context.state();
  const FpEnvironment pinned;
  if (state.device == DeviceKind::kCuda) {
    on_cuda(cuda::Launch{.ordinal = state.ordinal,
                         .op = op == nullptr ? 0 : op->index(),
                         .workspace = scope.workspace,
                         .workspace_bytes = scope.workspace_bytes,
                         .stream = scope.stream});
    return;
  }
  kernels::CpuBackend backend{};
  backend.isa = state.isa;
  backend.pool = state.pool.get();
  if constexpr (std::is_void_v<decltype(on_cpu(backend))>) {
    on_cpu(backend);
  } else {
    if (const auto place = on_cpu(backend)) fail_non_finite(op->name(), {}, *place, op->kind());
  }
}

}  // namespace

NamedOp::NamedOp(const Context& context, OpKind kind, std::string name) : name_(std::move(name)), kind_(kind) {
  if (context.device() == DeviceKind::kCuda) entry_.emplace(context, name_, std::vector<std::int64_t>{}, kind);
}

void embedding(const OpScope& scope, const kernels::EmbeddingCall& call) {
  dispatch(
      scope, nullptr, [&](const auto& backend) { cpu::embedding(backend, call); },
      [&](const auto& launch) { cuda::embedding(launch, call); });
}

void rms_norm(const OpScope& scope, const NamedOp& op, const kernels::RmsNormCall& call) {
  dispatch(
      scope, &op, [&](const auto& backend) { return cpu::rms_norm(backend, call); },
      [&](const auto& launch) { cuda::rms_norm(launch, call); });
}

void rotary(const OpScope& scope, const kernels::RotaryCall& call) {
  dispatch(
      scope, nullptr, [&](const auto& backend) { cpu::rotary(backend, call); },
      [&](const auto& launch) { cuda::rotary(launch, call); });
}

void attention(const OpScope& scope, const NamedOp& op, kernels::AttentionCall call) {
  call.workspace = scope.workspace;
  dispatch(
      scope, &op, [&](const auto& backend) { return cpu::attention(backend, call); },
      [&](const auto& launch) { cuda::attention(launch, call); });
}

void silu_gate(const OpScope& scope, const kernels::SiluGateCall& call) {
  dispatch(
      scope, nullptr, [&](const auto& backend) { cpu::silu_gate(backend, call); },
      [&](const auto& launch) { cuda::silu_gate(launch, call); });
}

void gather_rows(const OpScope& scope, const kernels::GatherRowsCall& call) {
  dispatch(
      scope, nullptr, [&](const auto& backend) { cpu::gather_rows(backend, call); },
      [&](const auto& launch) { cuda::gather_rows(launch, call); });
}

void round_bf16(const OpScope& scope, const kernels::RoundBf16Call& call) {
  dispatch(
      scope, nullptr, [&](const auto& backend) { cpu::round_bf16(backend, call); },
      [&](const auto& launch) { cuda::round_bf16(launch, call); });
}

void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  cuda::require_attention_shape(heads, kv_heads, head_dim);
}

std::size_t attention_workspace_bytes(const Context& context, std::int64_t heads, std::int64_t kv_heads,
                                      std::int64_t head_dim, std::int64_t chunks, std::int64_t rows,
                                      std::int64_t max_keys) {
  const auto as_int = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  if (context.device() == DeviceKind::kCuda)
    return cuda::attention_workspace_bytes(as_int(heads), as_int(head_dim), as_int(chunks), as_int(rows),
                                           as_int(max_keys));
  kernels::AttentionCall call;
  call.heads = as_int(heads);
  call.kv.kv_heads = as_int(kv_heads);
  call.kv.head_dim = as_int(head_dim);
  call.batch.rows = as_int(rows);
  call.batch.chunk_count = as_int(chunks);
  call.batch.max_keys = as_int(max_keys);
  return cpu::attention_workspace_bytes(call);
}

}  // namespace reprofuse
