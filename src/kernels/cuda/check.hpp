// CUDA runtime errors as exceptions.
#pragma once

#include <cuda_runtime.h>

#include "base/check.hpp"

namespace reprofuse::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    fail(ErrorCode::kDevice, "{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace reprofuse::cuda
