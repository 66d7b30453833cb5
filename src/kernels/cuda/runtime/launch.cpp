#include "kernels/cuda/runtime/launch.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "kernels/cuda/runtime/device.hpp"

namespace reprofuse::cuda {
namespace {

using KernelOnDevice = std::pair<int, const void*>;

// Many threads launch at once, and nearly always a kernel that is known.
class KnownKernels {
 public:
  bool find(const KernelOnDevice& key, KernelFacts& facts) const {
    const std::shared_lock lock(mutex_);
    const auto known = facts_.find(key);
    if (known == facts_.end()) return false;
    facts = known->second;
    return true;
  }
  void add(const KernelOnDevice& key, const KernelFacts& facts) {
    const std::lock_guard lock(mutex_);
    facts_.insert_or_assign(key, facts);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<KernelOnDevice, KernelFacts> facts_;
};

cudaError_t ask_driver(int device, const void* function, KernelFacts& facts) {
  constexpr int kSm90 = 90;
  cudaFuncAttributes attributes{};
  int max_shared = 0;
  cudaError_t status = cudaFuncGetAttributes(&attributes, function);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&max_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess)
    status = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  max_shared - static_cast<int>(attributes.sharedSizeBytes));
  facts.for_sm90 = attributes.ptxVersion >= kSm90;
  if (status == cudaSuccess && facts.for_sm90)
    status = cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  return status;
}

}  // namespace

cudaError_t look_up_kernel(const void* function, KernelFacts& facts) {
  static KnownKernels known;
  int device = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  if (!known.find({device, function}, facts)) {
    if (const cudaError_t status = ask_driver(device, function, facts); status != cudaSuccess) return status;
    known.add({device, function}, facts);
  }
  facts.for_sm90 = facts.for_sm90 && !is_emulated();
  return cudaSuccess;
}

cudaError_t count_clusters_at_once(const void* function, const GridShape& shape, int& clusters) {
  clusters = 0;
  KernelFacts facts;
  const cudaError_t status = look_up_kernel(function, facts);
  if (status != cudaSuccess || !facts.for_sm90) return status;
  LaunchConfig launch(shape, false, nullptr);
  if (shape.cluster == 1) launch.set_cluster(1);  // here a cluster has to be named, also one that is a CTA
  return cudaOccupancyMaxActiveClusters(&clusters, function, &launch.config);
}

int clusters_at_once(const void* function, const GridShape& shape) {
  int clusters = 0;
  if (count_clusters_at_once(function, shape, clusters) == cudaSuccess) return clusters;
  cudaGetLastError();  // an answer, not an error that a later call should find
  return 0;
}

}  // namespace reprofuse::cuda
