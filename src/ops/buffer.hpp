// Owned memory on a context's device.
#pragma once

#include <cstddef>
#include <utility>

#include "reprofuse/context.hpp"

namespace reprofuse {

class Buffer {
 public:
  Buffer() = default;
  // Not initialised. CPU memory is taken from the system when it is first touched.
  Buffer(const Context& context, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), device_(other.device_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(device_, other.device_);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  DeviceKind device_ = DeviceKind::kCpu;
};

// Between host memory and a buffer's memory; the calling thread waits.
void copy_to_device(const Context& context, void* to, const void* from, std::size_t bytes);
void copy_to_host(const Context& context, void* to, const void* from, std::size_t bytes);

}  // namespace reprofuse
