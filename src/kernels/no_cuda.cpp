// The CUDA backend of a build without CUDA.
#include "base/check.hpp"
#include "kernels/backend.hpp"

namespace reprofuse::kernels {

int count_cuda() noexcept {
  return 0;
}

namespace {

[[noreturn]] void fail_without_cuda() {
  fail(ErrorCode::kUnsupported,
       "this build of ReproFuse has no CUDA backend ({}). The CPU gives the same bits by the same contract",
       REPROFUSE_CUDA_STATUS);
}

}  // namespace

std::shared_ptr<const Backend> open_cuda(const BackendOptions&) {
  fail_without_cuda();
}

void act_as_cuda(std::string_view) {
  fail_without_cuda();
}

}  // namespace reprofuse::kernels
