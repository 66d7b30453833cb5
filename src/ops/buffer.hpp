// Owned memory on a context's device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "ops/context_state.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {

class Buffer {
 public:
  Buffer() = default;
  // Not initialised. CPU memory is taken from the system when it is first touched.
  Buffer(const Context& context, std::size_t bytes) : backend_(context.state().backend), bytes_(bytes) {
    if (bytes != 0) data_ = backend_->allocate(bytes);
  }
  ~Buffer() {
    if (data_ != nullptr) backend_->release(data_);
  }
  Buffer(Buffer&& other) noexcept
      : backend_(std::move(other.backend_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::shared_ptr<const kernels::Backend> backend_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

inline ConstMatrix read_only(Matrix m) {
  return {.data = m.data, .rows = m.rows, .cols = m.cols, .stride = m.stride};
}

// Between host memory and a buffer's memory; the calling thread waits.
inline void copy_to_device(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) context.state().backend->copy_to_device(to, from, bytes);
}
inline void copy_to_host(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) context.state().backend->copy_to_host(to, from, bytes);
}
// The values of a matrix on the device, row by row.
inline std::vector<float> copy_to_host(const Context& context, ConstMatrix matrix) {
  std::vector<float> strided(static_cast<std::size_t>((matrix.rows - 1) * matrix.stride + matrix.cols));
  copy_to_host(context, strided.data(), matrix.data, strided.size() * sizeof(float));
  if (matrix.stride == matrix.cols) return strided;
  std::vector<float> values;
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    values.insert(values.end(), strided.begin() + row * matrix.stride,
                  strided.begin() + row * matrix.stride + matrix.cols);
  return values;
}

// Device memory that the host writes again and again, by way of memory that copies are fast from. Where the device
// shares the host's memory the two are one.
class StagedBuffer {
 public:
  StagedBuffer(const Context& context, std::size_t bytes) : backend_(context.state().backend), device_(context, bytes) {
    if (!backend_->capabilities().shares_host_memory) staging_ = backend_->allocate_staging(bytes);
  }
  ~StagedBuffer() {
    if (staging_ != nullptr) backend_->release_staging(staging_);
  }
  StagedBuffer(const StagedBuffer&) = delete;
  StagedBuffer& operator=(const StagedBuffer&) = delete;

  template <typename T>
  T* host() const {
    return static_cast<T*>(staging_ == nullptr ? device_.as<void>() : staging_);
  }
  template <typename T>
  T* device() const {
    return device_.as<T>();
  }
  // Enqueues the copy of the first bytes; host() must not be written until the stream has passed it.
  void enqueue_upload(std::size_t bytes, void* stream) const {
    if (staging_ != nullptr) backend_->enqueue_copy_to_device(device_.as<void>(), staging_, bytes, stream);
  }

 private:
  std::shared_ptr<const kernels::Backend> backend_;
  Buffer device_;
  void* staging_ = nullptr;  // null: device_ itself
};

}  // namespace reprofuse
