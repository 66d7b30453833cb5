#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/device.hpp"

namespace reprofuse::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kCtasPerSm = 4;
constexpr int kUnroll = 8;

// Every thread keeps several 16-byte loads in flight; their exclusive-or reaches memory only in the one case in 2^32.
__global__ void read_memory(const uint4* memory, std::size_t vectors, unsigned* sink) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  unsigned folded = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < vectors; i += kUnroll * step)
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (i + u * step >= vectors) break;
      const uint4 v = __ldcs(memory + i + u * step);
      folded ^= v.x ^ v.y ^ v.z ^ v.w;
    }
  if (folded == 0x5eed5eedu) *sink = folded;
}

}  // namespace

cudaError_t launch_read(const void* memory, std::size_t bytes, void* sink, int sm_count, cudaStream_t stream) {
  const auto* vectors = static_cast<const uint4*>(memory);
  std::size_t count = bytes / sizeof(uint4);
  auto* word = static_cast<unsigned*>(sink);
  void* arguments[] = {&vectors, &count, &word};
  return cudaLaunchKernel(reinterpret_cast<const void*>(read_memory), dim3(sm_count * kCtasPerSm), dim3(kThreads),
                          arguments, 0, stream);
}

}  // namespace reprofuse::cuda
