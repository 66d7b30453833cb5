// The definition of the sampler's results: sort, cut, walk.
#pragma once

#include <cstdint>

#include "kernels/sample.hpp"

namespace reprofuse::reference {

kernels::SampleResult sample(const kernels::SampleRow& row, std::int64_t vocabulary);

}  // namespace reprofuse::reference
