// Copies from global to shared memory that a thread does not wait for, in groups that complete in order.
#pragma once

#include <cstdint>

namespace reprofuse::cuda {

// 16 bytes, both ends aligned.
__device__ inline void copy_async(void* shared, const void* global) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(global));
}

// The thread's copies since the last group are one.
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;");
}

// Until all but the last kPending groups of this thread are complete, for this thread to see.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace reprofuse::cuda
