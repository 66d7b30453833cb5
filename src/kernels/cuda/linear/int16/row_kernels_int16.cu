// Everything of int16-1 that is not a product, and what a layer has to know of the contract.
#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/row_kernels.cuh"
#include "kernels/reference/reference.hpp"

namespace reprofuse::cuda::int16 {

const ContractKernels& contract_kernels() {
  static const ContractKernels kAll{.name = reference::kLinearInt16.name,
                                    .max_terms = kMaxTerms,
                                    .row_bytes = sizeof(Row),
                                    .digits = kDigits,
                                    .tile_bytes = tile_bytes,
                                    .keeps_digits = true,
                                    .mma_kernels = mma_kernels,
                                    .wgmma_kernels = wgmma_kernels,
                                    .rows = row_kernels<Contract>()};
  return kAll;
}

}  // namespace reprofuse::cuda::int16
