#include "kernels/cuda/linear/fma1/kernels.cuh"

namespace reprofuse::cuda::fma1 {

std::vector<Kernel> kernels_f16() {
  return make_kernels<F16Weight>();
}

}  // namespace reprofuse::cuda::fma1
