// Everything of exact-1 that is not a product, and what a layer has to know of the contract.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/integer/row_kernels.cuh"
#include "kernels/reference/reference.hpp"

namespace reprofuse::cuda::exact1 {

const ContractKernels& contract_kernels() {
  static const ContractKernels kAll{.name = reference::kLinearExact1.name,
                                    .max_terms = kMaxTerms,
                                    .row_bytes = sizeof(Row),
                                    .digits = kDigits,
                                    .tile_bytes = tile_bytes,
                                    .keeps_digits = false,
                                    .mma_kernels = mma_kernels,
                                    .wgmma_kernels = wgmma_kernels,
                                    .rows = row_kernels<Contract>()};
  return kAll;
}

}  // namespace reprofuse::cuda::exact1
