// CUDA runtime errors as exceptions, and a current device that is given back.
#pragma once

#include <cuda_runtime.h>

#include "base/check.hpp"

namespace reprofuse::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    fail(ErrorCode::kDevice, "{} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

// Makes `ordinal` the calling thread's device for its lifetime.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) : ordinal_(ordinal) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != ordinal_) check(cudaSetDevice(ordinal_), "cudaSetDevice");
  }
  ~DeviceScope() {
    if (before_ != ordinal_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int ordinal_;
  int before_ = 0;
};

}  // namespace reprofuse::cuda
