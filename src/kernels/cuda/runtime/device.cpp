#include "kernels/cuda/runtime/device.hpp"

#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {
namespace {

cudaDeviceProp properties(int ordinal) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, ordinal), "cudaGetDeviceProperties");
  return device;
}

}  // namespace

void require_device(int ordinal) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    fail(ErrorCode::kUnsupported,
         "no usable CUDA device: there is no NVIDIA driver, or one too old for CUDA {}.{}. The CPU gives the same bits",
         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (status != cudaSuccess)
    fail(ErrorCode::kUnsupported, "no usable CUDA device: {}. The CPU gives the same bits", cudaGetErrorString(status));
  if (ordinal < 0 || ordinal >= count)
    fail(ErrorCode::kUnsupported, "CUDA device {} does not exist; this machine has {}", ordinal, count);
  const cudaDeviceProp device = properties(ordinal);
  if (device.major < 8)
    fail(ErrorCode::kUnsupported, "CUDA device {} ({}) has compute capability {}.{}; 8.0 is the least", ordinal,
         device.name, device.major, device.minor);
}

std::string device_description(int ordinal) {
  const cudaDeviceProp device = properties(ordinal);
  return fmt::format("{} (sm_{}{})", device.name, device.major, device.minor);
}

Device read_device(int ordinal) {
  const auto attribute = [&](cudaDeviceAttr which) { return device_attribute(ordinal, which); };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor), minor = attribute(cudaDevAttrComputeCapabilityMinor);
  const double bytes_per_memory_clock = 2.0 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  const int clock = attribute(cudaDevAttrClockRate);
  return {
      .ordinal = ordinal,
      .sm_count = attribute(cudaDevAttrMultiProcessorCount),
      .shared_bytes_per_cta = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
      .shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
      .reserved_shared_bytes_per_cta = attribute(cudaDevAttrReservedSharedMemoryPerBlock),
      .memory_bytes_per_clock = clock > 0 ? bytes_per_memory_clock * attribute(cudaDevAttrMemoryClockRate) / clock : 0,
      .major = major,
      .minor = minor,
      .architecture = fmt::format("sm_{}{}", major, minor)};
}

double peak_fma_gigaflops(int ordinal) {
  const int major = device_attribute(ordinal, cudaDevAttrComputeCapabilityMajor);
  const int minor = device_attribute(ordinal, cudaDevAttrComputeCapabilityMinor);
  const double lanes = major == 8 && minor == 0 ? 64 : 128;  // per multiprocessor; GA100 alone has half
  const double gigahertz = device_attribute(ordinal, cudaDevAttrClockRate) * 1e-6;
  return 2.0 * lanes * device_attribute(ordinal, cudaDevAttrMultiProcessorCount) * gigahertz;
}

}  // namespace reprofuse::cuda
