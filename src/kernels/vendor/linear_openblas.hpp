// The linear layer by OpenBLAS: baselines, selected like a contract, that pin no bits. Non-finite results are neither
// looked for nor reported, as in the frameworks they stand for.
#pragma once

#include <memory>
#include <span>

#include "kernels/backend.hpp"

namespace reprofuse::vendor {

// SGEMM on binary32 copies of the weights, made here once: twice the memory of 16-bit weights.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_sgemm(const kernels::Backend& backend,
                                                                const kernels::LayerName& layer,
                                                                std::span<const WeightView> weights);

// LayerCast: weights keep their format; each call casts one after another to a transient binary32 copy in the workspace
// and multiplies by SGEMM.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_layercast(const kernels::Backend& backend,
                                                                    const kernels::LayerName& layer,
                                                                    std::span<const WeightView> weights);

// x and y rounded to BF16 around the product, as frameworks run it. Debian's OpenBLAS multiplies no BF16, so the
// product itself is LayerCast's. Binary32 weights are rounded to BF16 here; binary16 weights are an error.
std::unique_ptr<kernels::PreparedLinear> prepare_openblas_bf16(const kernels::Backend& backend,
                                                               const kernels::LayerName& layer,
                                                               std::span<const WeightView> weights);

}  // namespace reprofuse::vendor
