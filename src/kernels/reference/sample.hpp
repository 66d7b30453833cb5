// The definition of the sampler's results: sort, cut, walk.
#pragma once

#include <cstdint>
#include <span>

#include "base/sha256.hpp"
#include "kernels/sample.hpp"

namespace reprofuse::reference {

// The Merkle root of a row of logits.
Sha256::Digest logits_root(std::span<const float> row);

kernels::SampleResult sample(const kernels::SampleRow& row, std::int64_t vocabulary);

}  // namespace reprofuse::reference
