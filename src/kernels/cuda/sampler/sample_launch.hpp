// Between the host code of the sampler and its kernel.
#pragma once

#include <cuda_runtime.h>

#include "kernels/sample.hpp"

namespace reprofuse::cuda::fma1 {

cudaError_t launch_sample_rows(const kernels::SampleRow* rows, int count, int vocabulary,
                               kernels::SampleResult* results, cudaStream_t stream);

}  // namespace reprofuse::cuda::fma1
