// Measurements on CUDA devices, in a build without CUDA. No context for such a device exists there.
#include "base/check.hpp"
#include "kernels/cuda/measure/peak.hpp"
#include "kernels/cuda/measure/timing.hpp"

namespace reprofuse::cuda {
namespace {

[[noreturn]] void missing() {
  fail(ErrorCode::kUnsupported, "this build of ReproFuse has no CUDA backend, and nothing to measure on it");
}

}  // namespace

std::vector<double> time_replays(int, int, const std::function<void(void*)>&) {
  missing();
}
void enqueue_read(int, const void*, std::size_t, void*, void*) {
  missing();
}
double peak_fma_gigaflops(int) {
  missing();
}

}  // namespace reprofuse::cuda
