// Clusters of CTAs that reach each other's shared memory, compute capability 9.0.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/copy_sm80.cuh"

namespace reprofuse::cuda::ptx {

// Every thread of every CTA of the cluster; what they wrote to shared memory before can be read after.
__device__ inline void cluster_sync() {
  __syncwarp();
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait."
      "acquire.aligned;" ::
          : "memory");
}

// The same place in the shared memory of the CTA of that rank (mapa).
__device__ inline std::uint32_t map_shared_rank(const void* shared, std::uint32_t rank) {
  std::uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(shared)), "r"(rank));
  return address;
}

// Two words of another CTA's shared memory.
__device__ inline longlong2 ld_shared_cluster(const long long* shared, std::uint32_t rank) {
  longlong2 value;
  asm volatile("ld.shared::cluster.v2.s64 {%0, %1}, [%2];"
               : "=l"(value.x), "=l"(value.y)
               : "r"(map_shared_rank(shared, rank))
               : "memory");
  return value;
}

// A float of another CTA's shared memory.
__device__ inline float ld_shared_cluster(const float* shared, std::uint32_t rank) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(map_shared_rank(shared, rank)) : "memory");
  return value;
}

// Two floats on their way to another CTA's shared memory, counted as 8 bytes by an mbarrier there.
__device__ inline void st_async(float* shared, std::uint32_t rank, float2 value, std::uint64_t* barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   map_shared_rank(shared, rank)),
               "f"(value.x), "f"(value.y), "r"(map_shared_rank(barrier, rank))
               : "memory");
}

}  // namespace reprofuse::cuda::ptx
