// The one way to launch a kernel of the model, but for the sampler's, which start in turn. By programmatic dependent
// launch it may start while the kernel before it in the stream still runs, and waits in wait_for_previous_kernel()
// (launch.cuh) before it touches what that one wrote.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace reprofuse::cuda {

inline constexpr std::int64_t kMaxGridYZ = 65535;  // CTAs, in the second or third dimension of a grid

enum class Start {
  // As soon as there is room beside the kernel before it (programmatic dependent launch): for kernels that wait for
  // memory.
  kEarly,
  // On an empty device: a kernel of few heavy CTAs would find room on some SMs and not on others.
  kInTurn,
};

struct GridShape {
  dim3 grid;
  int threads;
  int shared_bytes = 0;  // dynamic
  Start start = Start::kEarly;
  int cluster = 1;  // CTAs along x that can read each other's shared memory
};

// What a launch has to know of a kernel.
struct KernelFacts {
  bool for_sm90 = false;  // made of code for 9.0 or later: it waits by itself, and knows clusters and the TMA
};

// On the current device. The driver is asked once for each kernel and device, and told that CTAs may have all shared
// memory there is and clusters any size: the same for every launch, so that threads which launch side by side cannot
// lower each other's limits.
cudaError_t look_up_kernel(const void* function, KernelFacts& facts);

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

  void set_cluster(int ctas) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(ctas), 1, 1};
  }
};

template <typename Params>
cudaError_t launch_kernel(const void* function, const GridShape& shape, const Params& params, void* stream) {
  KernelFacts facts;
  if (const cudaError_t status = look_up_kernel(function, facts); status != cudaSuccess) return status;
  // Code made from PTX older than 9.0 has no instruction to wait with, whatever the device: it starts in turn.
  const LaunchConfig launch(shape, facts.for_sm90 && shape.start == Start::kEarly, stream);
  Params copy = params;
  void* arguments[] = {&copy};
  return cudaLaunchKernelExC(&launch.config, function, arguments);
}

// How many clusters of shape.cluster CTAs the device holds at once: each lies within a group of SMs (GPC), and how
// large those are depends on the device. 0: no such cluster fits, or the code has no clusters.
cudaError_t count_clusters_at_once(const void* function, const GridShape& shape, int& clusters);

// The same where a failure, too, means that there is no room for clusters.
int clusters_at_once(const void* function, const GridShape& shape);

}  // namespace reprofuse::cuda
