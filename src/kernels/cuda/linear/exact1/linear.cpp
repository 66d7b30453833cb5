#include "kernels/cuda/linear/exact1/linear.hpp"

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/reference/reference.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

constexpr integer::Scheme kScheme{.name = reference::kLinearExact1.name,
                                  .max_terms = kMaxTerms,
                                  .row_bytes = sizeof(Row),
                                  .digits = kDigits,
                                  .tile_bytes = tile_bytes,
                                  .keeps_digits = false,
                                  .mma_kernels = mma_kernels,
                                  .wgmma_kernels = wgmma_kernels,
                                  .load_row_kernels = load_row_kernels,
                                  .snap_activations = launch_snap_activations,
                                  .norm_rows_kernel = norm_rows_kernel,
                                  .silu_rows_kernel = silu_rows_kernel,
                                  .add_partials = launch_add_partials,
                                  .weight_exponents = launch_weight_exponents,
                                  .prepare_weights = launch_prepare_weights};

}  // namespace

CudaLinear::CudaLinear(const kernels::CudaTarget& target, std::span<const WeightView> weights)
    : integer::CudaLinear(kScheme, target, weights) {}

}  // namespace reprofuse::cuda::exact1

namespace reprofuse::cuda {

std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const kernels::CudaTarget& target,
                                                               std::span<const WeightView> weights) {
  return std::make_unique<exact1::CudaLinear>(target, weights);
}

}  // namespace reprofuse::cuda
