// cuBLAS, a baseline for benchmarks only: found at run time, so that nothing here depends on it.
#pragma once

#include <memory>
#include <string>

#include "reprofuse/types.hpp"

namespace reprofuse::vendor {

class Cublas {
 public:
  // Throws kUnsupported, with the reason, when the machine has no cuBLAS.
  Cublas();

  // y = x · wᵀ on `stream`, w [n, k] dense. Bits: whatever the library gives. TF32 stays off.
  void sgemm(ConstMatrix x, const float* w, Matrix y, void* stream) const;
  // The same with BF16 x, w and y and binary32 accumulation: what inference engines run by default.
  void bf16(const void* x, const void* w, void* y, std::int64_t m, std::int64_t n, std::int64_t k, void* stream) const;

  std::string description() const;  // "cuBLAS 13.0.2"

 private:
  struct CloseLibrary {
    void operator()(void* library) const;
  };
  struct DestroyHandle {
    void* library;
    void operator()(void* handle) const;
  };
  void gemm(const void* x, const void* w, void* y, int type, std::int64_t m, std::int64_t n, std::int64_t k,
            void* stream) const;

  std::unique_ptr<void, CloseLibrary> library_;
  std::unique_ptr<void, DestroyHandle> handle_;
};

}  // namespace reprofuse::vendor
