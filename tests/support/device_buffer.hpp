// Owned memory on a CUDA device, for tests and benches that drive kernels themselves.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/cuda/runtime/device.hpp"

namespace reprofuse::cuda {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int ordinal, std::size_t bytes) : data_(allocate(ordinal, bytes)) {}
  ~DeviceBuffer() {
    if (data_ != nullptr) release(data_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace reprofuse::cuda
