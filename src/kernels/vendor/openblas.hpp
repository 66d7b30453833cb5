// OpenBLAS, for the CPU's baselines alone: found at run time, so that nothing here depends on it.
#pragma once

#include <memory>
#include <string>

#include "reprofuse/types.hpp"

namespace reprofuse::vendor {

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

}  // namespace reprofuse::vendor
