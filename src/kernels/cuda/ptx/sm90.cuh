// Instructions of compute capability 9.0: copies by the tensor memory accelerator (TMA), and clusters of CTAs with
// distributed shared memory. Barriers that count bytes: pipeline_sm90.cuh.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/ptx/sm80.cuh"

namespace reprofuse::cuda::ptx {

// Copies by the TMA: one thread asks, an mbarrier counts the bytes.

// A box of a matrix that a tensor map describes: `column` and `row` are its first. What lies outside is zero.
__device__ inline void tma_load_2d(void* shared, const CUtensorMap* map, int column, int row, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_"
      "tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(shared)),
      "l"(reinterpret_cast<std::uint64_t>(map)), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}

// Contiguous bytes; both ends and the size are multiples of 16.
__device__ inline void tma_load_bulk(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Prefetches contiguous bytes of global memory into the L2.
__device__ inline void tma_prefetch_bulk(const void* global, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes));
}

// What a thread wrote to shared memory comes before what the TMA will bring there.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Clusters.

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

// Two floats to another CTA's shared memory, asynchronously; an mbarrier there counts their 8 bytes.
__device__ inline void st_async(float* shared, std::uint32_t rank, float2 value, std::uint64_t* barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   map_shared_rank(shared, rank)),
               "f"(value.x), "f"(value.y), "r"(map_shared_rank(barrier, rank))
               : "memory");
}

}  // namespace reprofuse::cuda::ptx
