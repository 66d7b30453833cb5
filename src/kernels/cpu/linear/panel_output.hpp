// The last step of a linear layer, whatever the contract.
#pragma once

#include <algorithm>

#include "kernels/cpu/first_place.hpp"
#include "kernels/cpu/linear/panels.hpp"
#include "kernels/linear.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::cpu {

// Bias, check, store: one row of one panel. An infinity or a NaN on the way to a total stays one, so looking at results
// misses nothing.
inline void store_panel_row(const kernels::LinearCall& call, const PanelColumns& columns, const float* totals,
                            std::int64_t row, FirstPlace& non_finite) {
  const LinearOutput& output = call.outputs[columns.output];
  const float* bias = output.bias == nullptr ? nullptr : output.bias + columns.column;
  float* y = output.y.data + row * output.y.stride + columns.column;
  bool finite = true;
  for (std::int64_t c = 0; c < columns.columns; ++c) {
    const float value = bias == nullptr ? totals[c] : totals[c] + bias[c];
    finite &= is_finite_bits(value);
    y[c] = value;
  }
  if (finite) [[likely]]
    return;
  const float* first = std::find_if_not(y, y + columns.columns, is_finite_bits);
  non_finite.add({row, columns.concatenated + (first - y)});
}

}  // namespace reprofuse::cpu
