#include "kernels/cuda/linear/fma1/kernels.cuh"

namespace reprofuse::cuda::fma1 {

std::vector<Kernel> kernels_f32() {
  return make_kernels<F32Weight>();
}

}  // namespace reprofuse::cuda::fma1
