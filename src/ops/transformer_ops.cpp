#include "ops/transformer_ops.hpp"

#include <optional>
#include <string>
#include <utility>

#include "base/fp_environment.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {
namespace {

kernels::OpSite site_of(const OpScope& scope, unsigned op = 0) {
  const WorkspaceView& workspace = scope.workspace;
  return {.op = op, .workspace = workspace.data, .workspace_bytes = workspace.bytes, .stream = scope.stream};
}

const kernels::Elementwise& elementwise_of(const OpScope& scope) {
  return *scope.context.state().elementwise;
}

const kernels::Attention& attention_of(const OpScope& scope) {
  return *scope.context.state().attention;
}

void check(const NamedOp& op, std::optional<kernels::NonFinite> non_finite) {
  if (non_finite) fail_non_finite(op.name(), {}, *non_finite, op.kind());
}

}  // namespace

NamedOp::NamedOp(const Context& context, OpKind kind, std::string name)
    : name_(std::move(name)), kind_(kind), registered_(register_op(context, name_, {}, kind)) {}

void embedding(const OpScope& scope, const kernels::EmbeddingCall& call) {
  const FpEnvironment pinned;
  elementwise_of(scope).embedding(site_of(scope), call);
}

void rms_norm(const OpScope& scope, const NamedOp& op, const kernels::RmsNormCall& call) {
  const FpEnvironment pinned;
  check(op, elementwise_of(scope).rms_norm(site_of(scope, op.index()), call));
}

void rotary(const OpScope& scope, const kernels::RotaryCall& call) {
  const FpEnvironment pinned;
  attention_of(scope).rotary(site_of(scope), call);
}

void attention(const OpScope& scope, const NamedOp& op, const kernels::AttentionCall& call) {
  const FpEnvironment pinned;
  check(op, attention_of(scope).attention(site_of(scope, op.index()), call));
}

bool rotary_and_attention(const OpScope& scope, const NamedOp& op, const kernels::RotaryCall& rotary,
                          const kernels::AttentionCall& call) {
  const FpEnvironment pinned;
  return attention_of(scope).rotary_and_attention(site_of(scope, op.index()), rotary, call);
}

void silu_gate(const OpScope& scope, const kernels::SiluGateCall& call) {
  const FpEnvironment pinned;
  elementwise_of(scope).silu_gate(site_of(scope), call);
}

void gather_rows(const OpScope& scope, const kernels::GatherRowsCall& call) {
  const FpEnvironment pinned;
  elementwise_of(scope).gather_rows(site_of(scope), call);
}

void round_bf16(const OpScope& scope, const kernels::RoundBf16Call& call) {
  const FpEnvironment pinned;
  elementwise_of(scope).round_bf16(site_of(scope), call);
}

}  // namespace reprofuse
