#include "reprofuse/ops.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "kernels/backend.hpp"
#include "ops/context_state.hpp"
#include "ops/op_checks.hpp"
#include "ops/transformer_ops.hpp"

namespace reprofuse {

struct Ops::Impl {
  Context context;
  std::string name;
  NamedOp norm;
  NamedOp attention;

  // Arrays that the host can read are checked, too.
  bool is_readable() const { return context.state().backend->capabilities().shares_host_memory; }
  OpScope scope(WorkspaceView workspace, void* stream) const {
    if (!is_readable()) {
      require(workspace.data != nullptr, "'{}': the workspace pointer is null", name);
      require(reinterpret_cast<std::uintptr_t>(workspace.data) % kernels::kWorkspaceAlignment == 0 &&
                  workspace.bytes >= kernels::kWorkspaceAlignment,
              "'{}': a workspace of {} bytes at {}; it takes at least {}, aligned to as many", name, workspace.bytes,
              workspace.data, kernels::kWorkspaceAlignment);
    }
    return {context, workspace, stream};
  }
};

Ops::Ops(const Context& context, std::string name) {
  NamedOp norm(context, OpKind::kNorm, name);
  NamedOp attention(context, OpKind::kAttention, name);
  impl_ = std::make_unique<Impl>(Impl{context, std::move(name), std::move(norm), std::move(attention)});
}

Ops::~Ops() = default;
Ops::Ops(Ops&&) noexcept = default;
Ops& Ops::operator=(Ops&&) noexcept = default;

void Ops::embedding(const EmbeddingCall& call, WorkspaceView workspace, void* stream) const {
  check_embedding(impl_->name, call, impl_->is_readable());
  if (call.x.rows > 0) reprofuse::embedding(impl_->scope(workspace, stream), call);
}

void Ops::rms_norm(const RmsNormCall& call, WorkspaceView workspace, void* stream) const {
  check_rms_norm(impl_->name, call);
  if (call.x.rows > 0) reprofuse::rms_norm(impl_->scope(workspace, stream), impl_->norm, call);
}

void Ops::rotary(const RotaryCall& call, WorkspaceView workspace, void* stream) const {
  check_rotary(impl_->name, call, *impl_->context.state().numerics->cache, impl_->is_readable());
  if (call.q.rows > 0) reprofuse::rotary(impl_->scope(workspace, stream), call);
}

void Ops::attention(const AttentionCall& call, WorkspaceView workspace, void* stream) const {
  check_attention(impl_->name, call, *impl_->context.state().numerics->cache, impl_->is_readable());
  if (call.q.rows == 0) return;
  const std::size_t needed = attention_workspace_bytes({.heads = call.heads,
                                                        .kv_heads = call.kv.kv_heads,
                                                        .head_dim = call.kv.head_dim,
                                                        .rows = call.batch.rows,
                                                        .chunks = call.batch.chunk_count,
                                                        .keys = call.batch.max_keys});
  check_workspace_bytes(impl_->name, workspace, needed);
  reprofuse::attention(impl_->scope(workspace, stream), impl_->attention, call);
}

void Ops::silu_gate(const SiluGateCall& call, WorkspaceView workspace, void* stream) const {
  check_silu_gate(impl_->name, call);
  if (call.y.rows > 0) reprofuse::silu_gate(impl_->scope(workspace, stream), call);
}

void Ops::gather_rows(const GatherRowsCall& call, WorkspaceView workspace, void* stream) const {
  check_gather_rows(impl_->name, call, impl_->is_readable());
  if (call.y.rows > 0) reprofuse::gather_rows(impl_->scope(workspace, stream), call);
}

std::size_t Ops::attention_workspace_bytes(const AttentionSizes& sizes) const {
  check_attention_sizes(impl_->name, sizes);
  const kernels::Attention& kernels = *impl_->context.state().attention;
  kernels.require_shape(sizes.heads, sizes.kv_heads, sizes.head_dim);
  const auto as_int = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  return kernels.workspace_bytes({.heads = as_int(sizes.heads),
                                  .kv_heads = as_int(sizes.kv_heads),
                                  .head_dim = as_int(sizes.head_dim),
                                  .chunks = as_int(sizes.chunks),
                                  .rows = as_int(sizes.rows),
                                  .max_keys = as_int(sizes.keys)});
}

std::optional<DType> Ops::kv_dtype() const {
  const kernels::CacheFormat& cache = *impl_->context.state().numerics->cache;
  return cache.unit_bytes > 0 ? std::nullopt : std::optional(cache.dtype);
}

KvPageBytes Ops::kv_page_bytes(std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size) const {
  const kernels::CacheFormat& cache = *impl_->context.state().numerics->cache;
  check_kv_page(impl_->name, kv_heads, head_dim, page_size, cache);
  return {.elements = static_cast<std::size_t>(cache.page_bytes(kv_heads, head_dim, page_size)),
          .units = static_cast<std::size_t>(cache.page_unit_bytes(kv_heads, page_size))};
}

}  // namespace reprofuse
