// The reduction of every norm, over a row or over a head.
#pragma once

#include <cstdint>

namespace reprofuse::reference {

float sum_of_squares(const float* x, std::int64_t k);

}  // namespace reprofuse::reference
