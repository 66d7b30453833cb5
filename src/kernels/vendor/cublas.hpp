// cuBLAS, for CUDA's baselines alone: found at run time, so that nothing here depends on it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "reprofuse/types.hpp"

namespace reprofuse::vendor {

// A row-major matrix of any element type on the device. Sizes and strides are at most 2^31 - 1.
struct DeviceMatrix {
  const void* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
};

// One handle, for the device that is current when it is made and must be current again at each call. Threads may share
// it: a call holds a lock while it enqueues.
class Cublas {
 public:
  // Throws kUnsupported, with the reason and what to install, when the machine has no cuBLAS.
  Cublas();

  // Where a product is enqueued. The scratch is the caller's and fixed, as graph capture wants it: cuBLAS allocates
  // nothing, and products on other streams use other scratch.
  struct Queue {
    void* stream;
    void* scratch;  // kScratchBytes, aligned to 256 bytes
  };
  static constexpr std::size_t kScratchBytes = std::size_t{32} << 20;  // what NVIDIA advises from Hopper on

  // y = x · wᵀ in binary32, TF32 off. Bits: whatever the library gives.
  void sgemm(ConstMatrix x, const DeviceMatrix& w, Matrix y, const Queue& queue) const;
  // The same with operands that the library may round to TF32 for its tensor cores.
  void tf32(ConstMatrix x, const DeviceMatrix& w, Matrix y, const Queue& queue) const;
  // The same with x, w and y in BF16, accumulated in binary32: what inference engines run by default. y is dense.
  void bf16(const DeviceMatrix& x, const DeviceMatrix& w, void* y, const Queue& queue) const;

  std::string description() const;  // "cuBLAS 13.0.2"

 private:
  struct CloseLibrary {
    void operator()(void* library) const;
  };
  struct DestroyHandle {
    void* library;
    void operator()(void* handle) const;
  };
  void gemm(const DeviceMatrix& x, const DeviceMatrix& w, void* y, std::int64_t y_stride, int type, int compute,
            const Queue& queue) const;

  std::unique_ptr<void, CloseLibrary> library_;
  std::unique_ptr<void, DestroyHandle> handle_;
  mutable std::mutex mutex_;  // stream and scratch belong to the handle
};

}  // namespace reprofuse::vendor
