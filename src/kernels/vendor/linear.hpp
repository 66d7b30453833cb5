// The linear layer by a vendor's library: baselines, selected like a contract, that pin no bits. Non-finite results are
// neither looked for nor recorded, as in the frameworks they stand for. Calls of cuBLAS can be captured in a graph.
#pragma once

#include <climits>
#include <memory>
#include <span>
#include <string_view>

#include "base/check.hpp"
#include "kernels/backend.hpp"

namespace reprofuse::vendor {

// SGEMM on binary32 copies of the weights, made here once: twice the memory of 16-bit weights.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_sgemm(const kernels::Backend& backend,
                                                                const kernels::LayerOptions& layer,
                                                                std::span<const WeightView> weights);

// LayerCast: weights keep their format; each call casts one after another to a transient binary32 copy in the workspace
// and multiplies by SGEMM.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_layercast(const kernels::Backend& backend,
                                                                    const kernels::LayerOptions& layer,
                                                                    std::span<const WeightView> weights);

// x and y rounded to BF16 around the product, as frameworks run it. Debian's OpenBLAS multiplies no BF16, so the
// product itself is LayerCast's. Binary32 weights are rounded to BF16 here; binary16 weights are an error.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_bf16(const kernels::Backend& backend,
                                                               const kernels::LayerOptions& layer,
                                                               std::span<const WeightView> weights);

// SGEMM, TF32 off, on binary32 copies of the weights, made here once: twice the memory of 16-bit weights, beside them.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_sgemm(const kernels::Backend& backend,
                                                              const kernels::LayerOptions& layer,
                                                              std::span<const WeightView> weights);

// LayerCast: weights keep their format; each call casts one after another to a transient binary32 copy in the workspace
// and multiplies by SGEMM, TF32 off.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_layercast(const kernels::Backend& backend,
                                                                  const kernels::LayerOptions& layer,
                                                                  std::span<const WeightView> weights);

// BF16 x, weights and y, accumulated in binary32: x is rounded before the product and y widened after it. Binary32
// weights are rounded to BF16 here; binary16 weights are an error.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_bf16(const kernels::Backend& backend,
                                                             const kernels::LayerOptions& layer,
                                                             std::span<const WeightView> weights);

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
