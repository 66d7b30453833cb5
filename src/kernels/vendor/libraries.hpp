// The vendors' libraries of one backend, each opened by the first layer that needs it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/backend.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::vendor {

// cuBLAS, for CUDA's baselines alone: found at run time, so that nothing here depends on it.

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

// OpenBLAS, for the CPU's baselines alone: found at run time, so that nothing here depends on it.
class OpenBlas {
 public:
  // Throws kUnsupported, with the reason and what to install, when the machine has no OpenBLAS.
  explicit OpenBlas(int threads);

  // y = x · wᵀ, all binary32; w is [n, k] with rows k apart, each size at most 2^31 - 1. Bits: whatever the library
  // gives. OpenBLAS keeps its number of threads per process: calls at the same time with other numbers share one.
  void sgemm(ConstMatrix x, const float* w, Matrix y) const;

  std::string description() const;  // "OpenBLAS 0.3.21 ... Cooperlake"

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::unique_ptr<void, Close> library_;
  int threads_;
};

template <typename Library>
class OnDemand {
 public:
  // Arguments count the first time only. Throws what the library's constructor throws, and tries again next time.
  template <typename... Arguments>
  const Library& get(Arguments... arguments) const {
    std::lock_guard lock(mutex_);
    if (!library_) library_.emplace(arguments...);
    return *library_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::optional<Library> library_;
};

struct Libraries {
  OnDemand<OpenBlas> openblas;
  OnDemand<Cublas> cublas;
};

inline const OpenBlas& openblas_of(const kernels::Backend& backend) {
  return backend.attached<Libraries>().openblas.get(backend.pool()->threads());
}

// Makes the backend's device that of the calling thread, as cuBLAS wants it.
inline const Cublas& cublas_of(const kernels::Backend& backend) {
  backend.make_current();
  return backend.attached<Libraries>().cublas.get();
}

}  // namespace reprofuse::vendor
