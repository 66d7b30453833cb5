// What can be wrong with the calls of public operations: kInvalidArgument with the place and the value. `readable` says
// that the arrays are host memory, so that what they hold is checked as well.
#pragma once

#include <string>

#include "reprofuse/ops.hpp"

namespace reprofuse {

void check_embedding(const std::string& name, const EmbeddingCall& call, bool readable);
void check_rms_norm(const std::string& name, const RmsNormCall& call);
void check_rotary(const std::string& name, const RotaryCall& call, DType kv_dtype, bool readable);
void check_attention(const std::string& name, const AttentionCall& call, DType kv_dtype, bool readable);
void check_silu_gate(const std::string& name, const SiluGateCall& call);
void check_gather_rows(const std::string& name, const GatherRowsCall& call, bool readable);

void check_attention_sizes(const std::string& name, const AttentionSizes& sizes);
void check_workspace_bytes(const std::string& name, WorkspaceView workspace, std::size_t needed);

}  // namespace reprofuse
