// OpenBLAS, a baseline for benchmarks only: found at run time, so that nothing here depends on it.
#pragma once

#include <memory>
#include <string>

#include "reprofuse/types.hpp"

namespace reprofuse::vendor {

class OpenBlas {
 public:
  // Throws kUnsupported, with the reason, when the machine has no OpenBLAS.
  explicit OpenBlas(int threads);

  // y = x · wᵀ, all binary32; w is [n, k] with rows k apart. Bits: whatever the library gives.
  void sgemm(ConstMatrix x, const float* w, Matrix y) const;

  std::string description() const;  // "OpenBLAS 0.3.21 ... Cooperlake"

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::unique_ptr<void, Close> library_;
};

}  // namespace reprofuse::vendor
