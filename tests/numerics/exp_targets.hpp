// The vector forms of exp, reachable per instruction set.
#pragma once

#include <cstddef>

#include "reprofuse/context.hpp"

namespace reprofuse::testing {

struct ExpTarget {
  void (*exp)(const float* x, std::size_t count, float* out);  // count: a multiple of 16
  void (*exp_nonpositive)(const float* x, std::size_t count, float* out);
};

const ExpTarget* exp_target(Isa isa);  // null: not in this build

}  // namespace reprofuse::testing
