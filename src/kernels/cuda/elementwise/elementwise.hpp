// Norms and elementwise operations on CUDA.
#pragma once

#include "kernels/cuda/elementwise/params.hpp"
#include "kernels/cuda/runtime/device_site.hpp"
#include "kernels/op_calls.hpp"

namespace reprofuse::cuda {

void embedding(const DeviceSite& site, const kernels::EmbeddingCall& call);
void rms_norm(const DeviceSite& site, const kernels::RmsNormCall& call);
void silu_gate(const DeviceSite& site, const kernels::SiluGateCall& call);
void gather_rows(const DeviceSite& site, const kernels::GatherRowsCall& call);
void round_bf16(const DeviceSite& site, const kernels::RoundBf16Call& call);

// For kernels of others that make these results on their way to more: linear/integer snaps them to digits.
ops::RmsNormParams norm_params(const DeviceSite& site, const kernels::RmsNormCall& call);
ops::SiluGateParams silu_gate_params(const kernels::SiluGateCall& call);

}  // namespace reprofuse::cuda
