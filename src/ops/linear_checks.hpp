// What a linear layer demands of its weights and of a call, whatever the backend.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprofuse/linear.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {

void check_weights(std::span<const WeightView> weights, const std::string& name);

// n: columns of each output.
void check_call(ConstMatrix x, std::span<const LinearOutput> outputs, std::int64_t k,
                const std::vector<std::int64_t>& n, const std::string& name);

}  // namespace reprofuse
