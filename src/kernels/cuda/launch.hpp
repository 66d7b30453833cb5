// The one way to launch a kernel of the model: it may start while the kernel before it in the stream still runs, and
// waits in wait_for_previous_kernel() (launch.cuh) before it touches what that one wrote.
#pragma once

#include <cuda_runtime.h>

namespace reprofuse::cuda {

struct GridShape {
  dim3 grid;
  int threads;
  int shared_bytes = 0;  // dynamic
};

// Code made from PTX older than 9.0 has no instruction to wait with, whatever the device: it starts in turn.
inline cudaError_t waits_by_itself(const void* function, bool* waits) {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, function);
  *waits = attributes.ptxVersion >= 90;
  return status;
}

template <typename Params>
cudaError_t launch_kernel(const void* function, const GridShape& shape, const Params& params, void* stream) {
  constexpr int kWithoutAsking = 48 << 10;
  if (shape.shared_bytes > kWithoutAsking) {
    const cudaError_t status =
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
    if (status != cudaSuccess) return status;
  }
  bool waits = false;
  const cudaError_t status = waits_by_itself(function, &waits);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = waits ? 1 : 0;
  Params copy = params;
  void* arguments[] = {&copy};
  return cudaLaunchKernelExC(&config, function, arguments);
}

}  // namespace reprofuse::cuda
