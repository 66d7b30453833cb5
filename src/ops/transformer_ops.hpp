// The operations of a transformer on a context's device, and a linear layer fused with the op before it (the layer
// itself: reprofuse/linear.hpp): dispatch, the floating-point state, and errors with names. The model calls these
// unchecked; the public Ops checks first (op_checks.hpp).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernels/linear.hpp"
#include "kernels/op_calls.hpp"
#include "ops/op_registry.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/linear.hpp"

namespace reprofuse {

// Where a call runs: a workspace that serves one call at a time and, where work is asynchronous, a stream.
struct OpScope {
  const Context& context;
  WorkspaceView workspace;
  void* stream;
};

// An op that can fail on its operands' values, and the name that its error gives it.
class NamedOp {
 public:
  NamedOp(const Context& context, OpKind kind, std::string name);

  const std::string& name() const { return name_; }
  OpKind kind() const { return kind_; }
  unsigned index() const { return registered_ ? registered_->index() : 0; }

 private:
  std::string name_;
  OpKind kind_;
  std::optional<RegisteredOp> registered_;
};

// Bits: each equals its reference in kernels/reference/reference.hpp.
void embedding(const OpScope& scope, const kernels::EmbeddingCall& call);
void rms_norm(const OpScope& scope, const NamedOp& op, const kernels::RmsNormCall& call);
void rotary(const OpScope& scope, const kernels::RotaryCall& call);
void attention(const OpScope& scope, const NamedOp& op, const kernels::AttentionCall& call);
// False: the two have to run one after the other, and nothing has run.
bool rotary_and_attention(const OpScope& scope, const NamedOp& op, const kernels::RotaryCall& rotary,
                          const kernels::AttentionCall& call);
void silu_gate(const OpScope& scope, const kernels::SiluGateCall& call);
void gather_rows(const OpScope& scope, const kernels::GatherRowsCall& call);
void round_bf16(const OpScope& scope, const kernels::RoundBf16Call& call);

// A linear layer together with the op that makes its x.
struct FusedLinear {
  // Bits: those of the two, one after the other. False: the layer leaves the op to others, and nothing has run.
  static bool run(const OpScope& scope, const kernels::Producer& producer, const LinearLayer& layer,
                  std::span<const LinearOutput> outputs);
};

}  // namespace reprofuse
