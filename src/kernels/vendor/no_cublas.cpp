// cuBLAS's layers, and the widening of weights for them, in a build without CUDA, where no backend asks for them.
#include "base/check.hpp"
#include "kernels/vendor/libraries.hpp"

namespace reprofuse {
namespace {

[[noreturn]] void missing() {
  fail(ErrorCode::kInternal, "internal error: a CUDA layer in a build without CUDA");
}

}  // namespace

void cuda::enqueue_widen(int, const WeightView&, float*, void*) {
  missing();
}

namespace vendor {

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_sgemm(const kernels::Backend&, const kernels::LayerOptions&,
                                                              std::span<const WeightView>) {
  missing();
}

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_layercast(const kernels::Backend&, const kernels::LayerOptions&,
                                                                  std::span<const WeightView>) {
  missing();
}

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_bf16(const kernels::Backend&, const kernels::LayerOptions&,
                                                             std::span<const WeightView>) {
  missing();
}

}  // namespace vendor
}  // namespace reprofuse
