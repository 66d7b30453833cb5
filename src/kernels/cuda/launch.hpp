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

// Lets a kernel have the shared memory and the cluster that it is launched with.
inline cudaError_t allow_shape(const void* function, const GridShape& shape, const cudaFuncAttributes& attributes) {
  constexpr int kSharedWithoutAsking = 48 << 10, kClusterWithoutAsking = 8;
  cudaError_t status = cudaSuccess;
  if (shape.shared_bytes > kSharedWithoutAsking) status = allow_shared_bytes(function, attributes);
  if (status == cudaSuccess && shape.cluster > kClusterWithoutAsking)
    status = cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  return status;
}

// A launch as the runtime wants it described.
struct LaunchConfig {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};

  LaunchConfig(const GridShape& shape, bool starts_early, void* stream) {
    if (starts_early) {
      attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cluster > 1) set_cluster(shape.cluster);
    config.gridDim = shape.grid;
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  void set_cluster(int blocks) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  }
};

template <typename Params>
cudaError_t launch_kernel(const void* function, const GridShape& shape, const Params& params, void* stream) {
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaFuncGetAttributes(&attributes, function);
  if (status == cudaSuccess) status = allow_shape(function, shape, attributes);
  if (status != cudaSuccess) return status;
  // Code made from PTX older than 9.0 has no instruction to wait with, whatever the device: it starts in turn.
  const bool waits_by_itself = attributes.ptxVersion >= 90;
  const LaunchConfig launch(shape, waits_by_itself && shape.start == Start::kEarly, stream);
  Params copy = params;
  void* arguments[] = {&copy};
  return cudaLaunchKernelExC(&launch.config, function, arguments);
}

// How many clusters of shape.cluster blocks the device holds at once: each lies within a group of multiprocessors, and
// how large those are is the device's own affair. 0: none so large fits, or the kernel is made of PTX that knows none.
inline cudaError_t count_clusters_at_once(const void* function, const GridShape& shape, int& clusters) {
  clusters = 0;
  cudaFuncAttributes attributes{};
  cudaError_t status = cudaFuncGetAttributes(&attributes, function);
  if (status != cudaSuccess || attributes.ptxVersion < 90) return status;
  status = allow_shape(function, shape, attributes);
  if (status != cudaSuccess) return status;
  LaunchConfig launch(shape, false, nullptr);
  if (shape.cluster == 1) launch.set_cluster(1);  // here a cluster has to be named, also one that is a block
  return cudaOccupancyMaxActiveClusters(&clusters, function, &launch.config);
}

// The same where a failure, too, means that there is no room for clusters.
inline int clusters_at_once(const void* function, const GridShape& shape) {
  int clusters = 0;
  if (count_clusters_at_once(function, shape, clusters) == cudaSuccess) return clusters;
  cudaGetLastError();  // an answer, not an error that a later call should find
  return 0;
}

}  // namespace reprofuse::cuda
