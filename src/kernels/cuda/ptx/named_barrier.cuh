// Barriers of some warps of a CTA.
#pragma once

namespace reprofuse::cuda::ptx {

// Waits for kThreads threads of whole warps that name the barrier, 1 to 15; barrier 0 is that of __syncthreads().
template <int kThreads>
__device__ inline void named_barrier_sync(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace reprofuse::cuda::ptx
