// The operations of a transformer on a context's device, and a linear layer fused with the op before it (the layer
// itself: reprofuse/linear.hpp): dispatch, the floating-point state, and errors with names. The model calls these
// unchecked; the public Ops checks first, by the checks below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kernels/op_calls.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/linear.hpp"
#include "reprofuse/ops.hpp"

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

// What can be wrong with the calls of public operations: kInvalidArgument with the place and the value. `readable` says
// that the arrays are host memory, so that what they hold is checked as well.
void check_embedding(const std::string& name, const EmbeddingCall& call, bool readable);
void check_rms_norm(const std::string& name, const RmsNormCall& call);
void check_rotary(const std::string& name, const RotaryCall& call, const kernels::CacheFormat& cache, bool readable);
void check_attention(const std::string& name, const AttentionCall& call, const kernels::CacheFormat& cache,
                     bool readable);
void check_silu_gate(const std::string& name, const SiluGateCall& call);
void check_gather_rows(const std::string& name, const GatherRowsCall& call, bool readable);

void check_kv_page(const std::string& name, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size,
                   const kernels::CacheFormat& cache);
void check_attention_sizes(const std::string& name, const AttentionSizes& sizes);
void check_workspace_bytes(const std::string& name, WorkspaceView workspace, std::size_t needed);

// What the checks ask: where operands lie in memory, and whether two of them share any of it.
inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// Rows of `bytes`, their starts `stride` bytes apart.
struct Region {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uintptr_t bytes = 0;
  std::uintptr_t stride = 0;  // 0: a single row
};

// Of `rows` > 0 rows of `cols` elements each.
inline Region region(const void* data, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                     std::size_t element = sizeof(float)) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t bytes = static_cast<std::uintptr_t>(cols) * element;
  const std::uintptr_t step = rows > 1 ? static_cast<std::uintptr_t>(stride) * element : 0;
  return {begin, begin + static_cast<std::uintptr_t>(rows - 1) * step + bytes, bytes, step};
}

// Rows that interleave share nothing when they have one stride and different columns of it. Rows of two strides in one
// stretch of memory count as overlapping: nobody lays out matrices so, and an exact answer would cost a walk over rows.
inline bool overlap(Region a, Region b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (b.begin < a.begin) std::swap(a, b);
  const std::uintptr_t stride = a.stride == 0 ? b.stride : a.stride;
  if (stride == 0 || (b.stride != 0 && b.stride != stride)) return true;
  const std::uintptr_t column = (b.begin - a.begin) % stride;
  return column < a.bytes || column + b.bytes > stride;
}

}  // namespace reprofuse
