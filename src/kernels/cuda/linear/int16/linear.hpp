// The prepared CUDA layer of contract int16-1.
#pragma once

#include "kernels/cuda/linear/integer/linear.hpp"

namespace reprofuse::cuda::int16 {

class CudaLinear : public integer::CudaLinear {
 public:
  CudaLinear(const kernels::CudaTarget& target, std::span<const WeightView> weights);
};

}  // namespace reprofuse::cuda::int16
