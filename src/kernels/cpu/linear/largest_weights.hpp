// The largest magnitude of every row of a layer's weights, as contracts of fixed point need it.
#pragma once

#include <cstdint>

#include "kernels/cpu/linear/panels.hpp"

namespace reprofuse::cpu {

struct LargestWeights {
  float of[kPanel];  // widened
};

// Of the columns of one panel.
LargestWeights largest_weights(const Panels& panels, std::int64_t panel);

}  // namespace reprofuse::cpu
