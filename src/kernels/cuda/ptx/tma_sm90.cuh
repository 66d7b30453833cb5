// Copies by the tensor memory accelerator (TMA), compute capability 9.0: one thread asks, an mbarrier counts the bytes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/ptx/copy_sm80.cuh"

namespace reprofuse::cuda::ptx {

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

// Contiguous bytes of global memory on their way to the L2; nothing is read yet.
__device__ inline void tma_prefetch_bulk(const void* global, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes));
}

// What a thread wrote to shared memory comes before what the TMA will bring there.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace reprofuse::cuda::ptx
