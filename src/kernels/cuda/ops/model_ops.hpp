// The operations of kernels/model_ops.hpp on CUDA.
#pragma once

#include <cstddef>

#include "kernels/model_ops.hpp"

namespace reprofuse::cuda {

// Where an operation runs. Nothing is waited for: results, and the record of what is not finite, are there when the
// stream is done. A non-finite result is recorded with `op`, its row and its column, which is 0 for a norm and the head
// for attention.
struct Launch {
  int ordinal = 0;
  unsigned op = 0;
  void* workspace = nullptr;        // begins with the record, kWorkspaceHead bytes
  std::size_t workspace_bytes = 0;  // all of it
  void* stream = nullptr;
};

void embedding(const Launch& launch, const kernels::EmbeddingCall& call);
void rms_norm(const Launch& launch, const kernels::RmsNormCall& call);
void rotary(const Launch& launch, const kernels::RotaryCall& call);
void attention(const Launch& launch, const kernels::AttentionCall& call);
void silu_gate(const Launch& launch, const kernels::SiluGateCall& call);
void gather_rows(const Launch& launch, const kernels::GatherRowsCall& call);
void round_bf16(const Launch& launch, const kernels::RoundBf16Call& call);

// The workspace that attention() needs, head included, for at most so many chunks, rows and keys.
std::size_t attention_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys);

// Throws kUnsupported for heads that attention() does not take.
void require_attention_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim);

}  // namespace reprofuse::cuda
