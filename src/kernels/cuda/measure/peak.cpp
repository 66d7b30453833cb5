#include "kernels/cuda/measure/peak.hpp"

#include "kernels/cuda/runtime/check.hpp"

namespace reprofuse::cuda {
namespace {

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

double peak_fma_gigaflops(int ordinal) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, ordinal);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
  const double lanes = major == 8 && minor == 0 ? 64 : 128;  // per multiprocessor; GA100 alone has half
  const double gigahertz = attribute(cudaDevAttrClockRate, ordinal) * 1e-6;
  return 2.0 * lanes * attribute(cudaDevAttrMultiProcessorCount, ordinal) * gigahertz;
}

}  // namespace reprofuse::cuda
