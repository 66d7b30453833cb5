// Attention by contract int16-1: which kernels run.
#include "base/check.hpp"
#include "kernels/cpu/ops/ops.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::cpu {

static_assert(int16::kKeyBlock <= kMaxKeyGroups * kKeyGroup);

std::optional<kernels::Place> attention_int16(const kernels::CpuTarget& target, const kernels::AttentionCall& call) {
  const AttentionKernels* kernels =
      target.isa == Isa::kScalar ? &attention_int16_scalar() : attention_int16_simd(target.isa);
  invariant(kernels != nullptr, "a context holds an instruction set that the build has no kernels for");
  return run_attention(*kernels, *target.pool, call);
}

std::size_t attention_int16_workspace_bytes(const kernels::AttentionCall& call) {
  return attention_partial_bytes(call, int16::kKeyBlock);
}

}  // namespace reprofuse::cpu
