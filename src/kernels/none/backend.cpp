// The CUDA backend of a build without CUDA.
#include "kernels/cuda/backend.hpp"

#include "base/check.hpp"

namespace reprofuse::cuda {

std::shared_ptr<const kernels::Backend> open_backend(const kernels::BackendOptions&) {
  fail(ErrorCode::kUnsupported, "this build of ReproFuse has no CUDA backend ({}). The CPU gives the same bits",
       REPROFUSE_CUDA_STATUS);
}

}  // namespace reprofuse::cuda
