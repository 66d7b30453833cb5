// The inner loops of the ablated layer on the CPU, for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reprofuse/context.hpp"

namespace reprofuse::ablation {

inline constexpr int kColumnStep = 16;  // columns come in multiples of it, whatever the register width

// Adds `terms` products to every sum of a block, in ascending k.
struct BlockCall {
  const float* x;  // [rows, terms]
  std::int64_t x_stride;
  const float* w;  // [terms, columns]
  std::int64_t w_stride;
  float* sums;  // [rows, columns]
  std::int64_t sums_stride;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t terms;
};
using BlockKernel = void (*)(const BlockCall&);

struct CpuKernels {
  BlockKernel fma;
  BlockKernel multiply_then_add;
};

const CpuKernels& cpu_kernels_scalar();
const CpuKernels* cpu_kernels_simd(Isa isa);  // null: not in this build

}  // namespace reprofuse::ablation
