// The CUDA backend of a build without CUDA.
#include "base/check.hpp"
#include "kernels/cuda/runtime/backend.hpp"
#include "kernels/vendor/linear_cublas.hpp"

namespace reprofuse {
namespace {

[[noreturn]] void missing() {
  fail(ErrorCode::kUnsupported, "this build of ReproFuse has no CUDA backend ({}). The CPU gives the same bits",
       REPROFUSE_CUDA_STATUS);
}

}  // namespace
}  // namespace reprofuse

namespace reprofuse::cuda {

void require_device(int) {
  missing();
}
std::string device_description(int) {
  missing();
}
std::int64_t free_bytes(int) {
  missing();
}
void* allocate(int, std::size_t) {
  missing();
}
void* allocate_workspace(int, std::size_t) {
  missing();
}
void release(void*) noexcept {}
void copy_to_device(void*, const void*, std::size_t) {
  missing();
}
void copy_to_host(void*, const void*, std::size_t) {
  missing();
}
void reset_record(int, void*, void*) {
  missing();
}
std::optional<OpPlace> take_record(int, void*, void*) {
  missing();
}
std::unique_ptr<kernels::PreparedLinear> prepare_linear_fma1(const kernels::CudaBackend&, std::span<const WeightView>) {
  missing();
}
std::unique_ptr<kernels::PreparedLinear> prepare_linear_exact1(const kernels::CudaBackend&,
                                                               std::span<const WeightView>) {
  missing();
}

}  // namespace reprofuse::cuda

namespace reprofuse::vendor {

std::unique_ptr<kernels::PreparedLinear> prepare_cublas_sgemm(const kernels::CudaBackend&,
                                                              std::span<const WeightView>) {
  missing();
}
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_layercast(const kernels::CudaBackend&,
                                                                  std::span<const WeightView>) {
  missing();
}
std::unique_ptr<kernels::PreparedLinear> prepare_cublas_bf16(const kernels::CudaBackend&, std::span<const WeightView>) {
  missing();
}

}  // namespace reprofuse::vendor
