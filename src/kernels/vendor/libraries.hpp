// The vendors' libraries of one backend, each opened by the first layer that needs it.
#pragma once

#include <mutex>
#include <optional>

#include "kernels/backend.hpp"
#include "kernels/vendor/cublas.hpp"
#include "kernels/vendor/openblas.hpp"

namespace reprofuse::vendor {

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
