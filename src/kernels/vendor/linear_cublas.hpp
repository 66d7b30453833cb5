// The linear layer by cuBLAS: baselines, selected like a contract, that pin no bits. Non-finite results are neither
// looked for nor recorded, as in the frameworks they stand for. Calls can be captured in a graph.
#pragma once

#include <memory>
#include <span>

#include "kernels/backend.hpp"

namespace reprofuse::vendor {

// SGEMM, TF32 off, on binary32 copies of the weights, made here once: twice the memory of 16-bit weights, beside them.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_sgemm(const kernels::Backend& backend,
                                                              const kernels::LayerName& layer,
                                                              std::span<const WeightView> weights);

// LayerCast: weights keep their format; each call casts one after another to a transient binary32 copy in the workspace
// and multiplies by SGEMM, TF32 off.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_layercast(const kernels::Backend& backend,
                                                                  const kernels::LayerName& layer,
                                                                  std::span<const WeightView> weights);

// BF16 x, weights and y, accumulated in binary32: x is rounded before the product and y widened after it. Binary32
// weights are rounded to BF16 here; binary16 weights are an error.
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_bf16(const kernels::Backend& backend,
                                                             const kernels::LayerName& layer,
                                                             std::span<const WeightView> weights);

}  // namespace reprofuse::vendor
