// Norms and operations on single elements. Those that move and round without arithmetic are the same code for every
// instruction set.
#include "kernels/cpu/elementwise/elementwise.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "kernels/cpu/work_split.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

template <DType kDType>
void widen_row(const WeightView& table, std::int64_t row, float* x) {
  for (std::int64_t i = 0; i < table.k; ++i)
    x[i] = widen(kDType, load_weight(table.data, kDType, row * table.stride + i));
}

using WidenRow = void (*)(const WeightView&, std::int64_t, float*);

WidenRow widen_row_of(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return widen_row<DType::kBF16>;
    case DType::kF16: return widen_row<DType::kF16>;
    case DType::kF32: break;
  }
  return widen_row<DType::kF32>;
}

}  // namespace

const ElementwiseKernels& elementwise_kernels(Isa isa) {
  const ElementwiseKernels* kernels = isa == Isa::kScalar ? &elementwise_scalar() : elementwise_simd(isa);
  invariant(kernels != nullptr, "a context holds an instruction set that the build has no kernels for");
  return *kernels;
}

void embedding(const CpuDevice& device, const kernels::EmbeddingCall& call) {
  const WidenRow widen_one = widen_row_of(call.table.dtype);
  for_each_row(*device.pool, call.x.rows, call.x.cols,
               [&](std::int64_t m, int) { widen_one(call.table, call.tokens[m], call.x.data + m * call.x.stride); });
}

std::optional<kernels::NonFinite> rms_norm(const CpuDevice& device, const kernels::RmsNormCall& call) {
  const ElementwiseKernels& kernels = elementwise_kernels(device.isa);
  FirstNonFinite failure;
  for_each_row(*device.pool, call.x.rows, call.x.cols, [&](std::int64_t m, int) {
    const bool finite =
        kernels.norm_row({.x = call.x.data + m * call.x.stride,
                          .delta = call.delta.data == nullptr ? nullptr : call.delta.data + m * call.delta.stride,
                          .weight = call.weight,
                          .eps = call.eps,
                          .k = call.x.cols,
                          .y = call.y.data + m * call.y.stride});
    if (!finite) failure.add({.row = m, .column = 0});
  });
  return failure.get();
}

void silu_gate(const CpuDevice& device, const kernels::SiluGateCall& call) {
  const ElementwiseKernels& kernels = elementwise_kernels(device.isa);
  for_each_row(*device.pool, call.y.rows, call.y.cols, [&](std::int64_t m, int) {
    kernels.silu_gate_row({.gate = call.gate.data + m * call.gate.stride,
                           .up = call.up.data + m * call.up.stride,
                           .k = call.y.cols,
                           .y = call.y.data + m * call.y.stride});
  });
}

void gather_rows(const CpuDevice& device, const kernels::GatherRowsCall& call) {
  for_each_row(*device.pool, call.y.rows, call.y.cols, [&](std::int64_t m, int) {
    std::copy_n(call.x.data + call.rows[m] * call.x.stride, call.y.cols, call.y.data + m * call.y.stride);
  });
}

void round_bf16(const CpuDevice& device, const kernels::RoundBf16Call& call) {
  for_each_row(*device.pool, call.x.rows, call.x.cols, [&](std::int64_t m, int) {
    float* x = call.x.data + m * call.x.stride;
    for (std::int64_t i = 0; i < call.x.cols; ++i) x[i] = widen_bf16(reprofuse::round_bf16(x[i]));
  });
}

}  // namespace reprofuse::cpu
