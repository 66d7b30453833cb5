#include "kernels/cuda/linear/fma1/kernels.cuh"

namespace reprofuse::cuda::fma1 {

std::vector<Kernel> kernels_bf16() {
  return make_kernels<Bf16Weight>();
}

}  // namespace reprofuse::cuda::fma1
