#include "kernels/cuda/device.hpp"

#include "kernels/cuda/check.hpp"

namespace reprofuse::cuda {

Device read_device(int ordinal) {
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
    return value;
  };
  const int major = attribute(cudaDevAttrComputeCapabilityMajor), minor = attribute(cudaDevAttrComputeCapabilityMinor);
  return {.ordinal = ordinal,
          .sm_count = attribute(cudaDevAttrMultiProcessorCount),
          .shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
          .major = major,
          .minor = minor,
          .architecture = fmt::format("sm_{}{}", major, minor)};
}

}  // namespace reprofuse::cuda
