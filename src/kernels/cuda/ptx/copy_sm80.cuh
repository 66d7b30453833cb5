// Copies from global to shared memory that a thread does not wait for (cp.async), compute capability 8.0.
#pragma once

#include <cstdint>

namespace reprofuse::cuda::ptx {

// A pointer into shared memory as PTX wants it: an address in the shared window.
__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Groups of copies complete in order. Each copy is 16 bytes, aligned at both ends.
__device__ inline void cp_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global));
}

// Zeros where `copy` is false; `global` is not read then.
__device__ inline void cp_async_or_zero(void* shared, const void* global, bool copy) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(copy ? 16 : 0));
}

__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;");
}

// Until all but the last kPending groups of this thread are complete, for this thread to see.
template <int kPending>
__device__ inline void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace reprofuse::cuda::ptx
