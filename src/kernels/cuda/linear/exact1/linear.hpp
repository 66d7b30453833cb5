// The prepared CUDA layer of contract exact-1.
#pragma once

#include "kernels/cuda/linear/integer/linear.hpp"

namespace reprofuse::cuda::exact1 {

class CudaLinear : public integer::CudaLinear {
 public:
  CudaLinear(const kernels::CudaTarget& target, std::span<const WeightView> weights);
};

}  // namespace reprofuse::cuda::exact1
