// The operations of a transformer beside its linear layers, on a context's device: dispatch, the floating-point state,
// and errors with names. Calls are made by the model alone, which has checked its sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/op_calls.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/context.hpp"

namespace reprofuse {

// Where a call runs: a workspace that serves one call at a time and, where work is asynchronous, a stream.
struct OpScope {
  const Context& context;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;
};

// An op that can fail on its operands' values, and the name that its error gives it.
class NamedOp {
 public:
  NamedOp(const Context& context, OpKind kind, std::string name);

  const std::string& name() const { return name_; }
  OpKind kind() const { return kind_; }
  unsigned index() const { return entry_ ? entry_->index() : 0; }

 private:
  std::string name_;
  OpKind kind_;
  std::optional<OpEntry> entry_;
};

// Bits: each equals its reference in kernels/reference/reference.hpp.
void embedding(const OpScope& scope, const kernels::EmbeddingCall& call);
void rms_norm(const OpScope& scope, const NamedOp& op, const kernels::RmsNormCall& call);
void rotary(const OpScope& scope, const kernels::RotaryCall& call);
void attention(const OpScope& scope, const NamedOp& op, const kernels::AttentionCall& call);
void silu_gate(const OpScope& scope, const kernels::SiluGateCall& call);
void gather_rows(const OpScope& scope, const kernels::GatherRowsCall& call);
void round_bf16(const OpScope& scope, const kernels::RoundBf16Call& call);

}  // namespace reprofuse
