#include "kernels/cuda/runtime/device.hpp"

#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {

Device read_device(int ordinal) {
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
    return value;
  };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor), minor = attribute(cudaDevAttrComputeCapabilityMinor);
  const double bytes_per_memory_clock = 2.0 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  const int clock = attribute(cudaDevAttrClockRate);
  return {
      .ordinal = ordinal,
      .sm_count = attribute(cudaDevAttrMultiProcessorCount),
      .shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
      .shared_bytes_per_sm = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
      .reserved_shared_bytes_per_block = attribute(cudaDevAttrReservedSharedMemoryPerBlock),
      .memory_bytes_per_clock = clock > 0 ? bytes_per_memory_clock * attribute(cudaDevAttrMemoryClockRate) / clock : 0,
      .major = major,
      .minor = minor,
      .architecture = fmt::format("sm_{}{}", major, minor)};
}

}  // namespace reprofuse::cuda
