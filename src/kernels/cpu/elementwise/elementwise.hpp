// The operations of a transformer other than its linear layers and attention, on the CPU.
// Bits: equal those of kernels/reference/reference.hpp for every input, instruction set, thread count and page size.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/machine.hpp"
#include "kernels/op_calls.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// rms_norm returns the first row whose mean of squares is not finite, as the reference does; the others cannot fail.
void embedding(const CpuDevice& device, const kernels::EmbeddingCall& call);
std::optional<kernels::NonFinite> rms_norm(const CpuDevice& device, const kernels::RmsNormCall& call);
void silu_gate(const CpuDevice& device, const kernels::SiluGateCall& call);
void gather_rows(const CpuDevice& device, const kernels::GatherRowsCall& call);
void round_bf16(const CpuDevice& device, const kernels::RoundBf16Call& call);

// The kernels of these operations, and of rotation, for one instruction set, as a table. Which one runs is decided by
// the caller alone. A kernel works on one row or one head; elementwise.cpp and attention/rotary.cpp share them among
// threads.
struct NormRow {
  float* x;            // [k], updated when there is a delta
  const float* delta;  // [k], or null
  const float* weight;
  float eps;
  std::int64_t k;
  float* y;  // [k]; may be x
};

struct RotaryHead {
  const float* head;    // [head_dim]
  const float* weight;  // of its norm, or null
  float eps;
  std::int64_t head_dim;
  const float* cos;  // [head_dim / 2]
  const float* sin;
  float* rotated;  // [head_dim]; may be head
};

struct SiluGateRow {
  const float* gate;
  const float* up;
  std::int64_t k;
  float* y;  // may be gate or up
};

struct ElementwiseKernels {
  bool (*norm_row)(const NormRow&);  // whether the mean of squares is finite
  void (*rotary_head)(const RotaryHead&);
  void (*silu_gate_row)(const SiluGateRow&);
};

// The table of an instruction set that the build has kernels for.
const ElementwiseKernels& elementwise_kernels(Isa isa);

const ElementwiseKernels& elementwise_scalar();       // a true fused multiply-add on every machine
const ElementwiseKernels* elementwise_simd(Isa isa);  // null: not in this build

}  // namespace reprofuse::cpu
