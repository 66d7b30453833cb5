// What the baselines ask of their operands beyond what every linear layer does.
#pragma once

#include <climits>
#include <span>
#include <string_view>

#include "base/check.hpp"
#include "kernels/linear.hpp"

namespace reprofuse::vendor {

// The vendors' interfaces count in 32-bit integers.
inline void require_int_sizes(std::span<const WeightView> weights, std::string_view name) {
  for (const WeightView& w : weights)
    require(w.n <= INT_MAX && w.k <= INT_MAX && w.stride <= INT_MAX,
            "linear '{}': a weight of {} x {} with row stride {} is larger than a baseline takes", name, w.n, w.k,
            w.stride);
}

inline void require_int_sizes(const kernels::LinearCall& call, std::string_view name) {
  require(call.x.rows <= INT_MAX && call.x.stride <= INT_MAX,
          "linear '{}': x of {} rows with row stride {} is larger than a baseline takes", name, call.x.rows,
          call.x.stride);
  for (const LinearOutput& output : call.outputs)
    require(output.y.stride <= INT_MAX, "linear '{}': a result with row stride {} is larger than a baseline takes",
            name, output.y.stride);
}

// BF16 has other exponents than binary16, so a framework that runs BF16 would not take such weights as they are.
inline void require_bf16_or_f32(std::span<const WeightView> weights, std::string_view name) {
  if (weights[0].dtype == DType::kF16)
    fail(ErrorCode::kUnsupported,
         "linear '{}': the weights are f16; numerics 'bf16' takes bf16, or f32, which it rounds. 'layercast' takes f16",
         name);
}

}  // namespace reprofuse::vendor
