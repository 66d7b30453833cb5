// The definition of every bit: plain loops, one output at a time.
#pragma once

#include "kernels/schemes.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::reference {

// bias may be null. The operands must be finite; the caller checks the results.
void linear_fma1(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y);

inline constexpr kernels::LinearScheme kLinearFma1{.name = "fma-1", .reference = linear_fma1};

// One element of a weight matrix, widened.
float widened(const WeightView& weight, std::int64_t row, std::int64_t col);

}  // namespace reprofuse::reference
