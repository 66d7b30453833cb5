// The one way to launch a kernel of the model: it may start while the kernel before it in the stream still runs, and
// waits in wait_for_previous_kernel() (launch.cuh) before it touches what that one wrote.
#pragma once

#include <cuda_runtime.h>

namespace reprofuse::cuda {

enum class Start {
  kEarly,   // as soon as there is room beside the kernel before it: for kernels that wait for memory
  kInTurn,  // on an empty device: a kernel of few heavy blocks would find room on some multiprocessors and not on
            // others
};

struct GridShape {
  dim3 grid;
  int threads;
  int shared_bytes = 0;  // dynamic
  Start start = Start::kEarly;
  int cluster = 1;  // blocks along x that can read each other's shared memory
};

// The most dynamic shared memory that a block of this kernel can have. The same for every launch, so that threads which
// launch side by side cannot lower each other's limit.
inline cudaError_t allow_shared_bytes(const void* function, const cudaFuncAttributes& attributes) {
  int device = 0, most = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status != cudaSuccess) return status;
  return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              most - static_cast<int>(attributes.sharedSizeBytes));
}

template <typename Params>
cudaError_t launch_kernel(const void* function, const GridShape& shape, const Params& params, void* stream) {
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaFuncGetAttributes(&attributes, function);
  constexpr int kWithoutAsking = 48 << 10;
  if (status == cudaSuccess && shape.shared_bytes > kWithoutAsking) status = allow_shared_bytes(function, attributes);
  if (status != cudaSuccess) return status;
  // Code made from PTX older than 9.0 has no instruction to wait with, whatever the device: it starts in turn.
  const bool waits_by_itself = attributes.ptxVersion >= 90;
  cudaLaunchAttribute attributes_of_launch[2] = {};
  unsigned count = 0;
  if (waits_by_itself && shape.start == Start::kEarly) {
    attributes_of_launch[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_of_launch[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes_of_launch[count].id = cudaLaunchAttributeClusterDimension;
    attributes_of_launch[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes_of_launch;
  config.numAttrs = count;
  Params copy = params;
  void* arguments[] = {&copy};
  return cudaLaunchKernelExC(&config, function, arguments);
}

}  // namespace reprofuse::cuda
