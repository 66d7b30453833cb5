// fma-1 on the CPU.
#pragma once

#include <memory>
#include <span>

#include "kernels/linear.hpp"

namespace reprofuse::cpu {

std::unique_ptr<kernels::PreparedLinear> prepare_linear_fma1(const kernels::CpuBackend& backend,
                                                             std::span<const WeightView> weights);

}  // namespace reprofuse::cpu
