// Contract exact-1 for the linear layer on the CPU.
#pragma once

#include <memory>
#include <span>

#include "kernels/linear.hpp"

namespace reprofuse::cpu {

// The backend's instruction set must be supported. Refuses rows of more terms than an exact sum can hold.
std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const kernels::CpuBackend& backend,
                                                               std::span<const WeightView> weights);

}  // namespace reprofuse::cpu
