// The operations of a transformer beside its linear layers, on the CPU.
// Bits: equal those of kernels/reference/model_ops.hpp for every input, instruction set, thread count and page size.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/linear.hpp"
#include "kernels/model_ops.hpp"

namespace reprofuse::cpu {

// Each returns the place where it fails, if any: the first by row and then column, as in the reference.
void embedding(const kernels::CpuTarget& backend, const kernels::EmbeddingCall& call);
std::optional<kernels::Place> rms_norm(const kernels::CpuTarget& backend, const kernels::RmsNormCall& call);
void rotary(const kernels::CpuTarget& backend, const kernels::RotaryCall& call);
std::optional<kernels::Place> attention(const kernels::CpuTarget& backend, const kernels::AttentionCall& call);
void silu_gate(const kernels::CpuTarget& backend, const kernels::SiluGateCall& call);
void gather_rows(const kernels::CpuTarget& backend, const kernels::GatherRowsCall& call);
void round_bf16(const kernels::CpuTarget& backend, const kernels::RoundBf16Call& call);

// What AttentionCall::workspace must hold, aligned to 64 bytes, for threads to share the keys of few rows. Grows with
// call.batch.rows and max_keys, so that the largest call's serves all. Without a workspace they share heads alone.
std::size_t attention_workspace_bytes(const kernels::AttentionCall& call);

}  // namespace reprofuse::cpu
