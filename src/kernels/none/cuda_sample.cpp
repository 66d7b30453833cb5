// The sampler of a build without CUDA: require_device() says so, and never returns.
#include "kernels/cuda/runtime/backend.hpp"
#include "kernels/cuda/sampler/sample.hpp"

namespace reprofuse::cuda {

void launch_sample(int ordinal, const kernels::SampleRow*, std::int64_t, std::int64_t, kernels::SampleResult*, void*) {
  require_device(ordinal);
}

std::unique_ptr<SampleBatch> make_sample_batch(int ordinal, std::int64_t, std::int64_t) {
  require_device(ordinal);
  return nullptr;
}

}  // namespace reprofuse::cuda
