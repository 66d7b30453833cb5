// Instructions of compute capability 8.0, and so of every device: copies that a thread does not wait for, matrix
// products of a warp over 8-bit integers, barriers.
#pragma once

#include <cstdint>

namespace reprofuse::cuda::ptx {

// A pointer into shared memory as PTX wants it: an address in the shared window.
__device__ inline std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Copies from global to shared memory that a thread does not wait for (cp.async).

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

// Matrix products of a warp, and how their operands come from shared memory.

// Four matrices of 8 rows by 16 bytes: word `lane % 4` of row `lane / 4` of each. A lane names one row, of matrix
// `lane / 8`.
__device__ inline void ldmatrix_x4(std::uint32_t (&words)[4], const unsigned char* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

// The same of two; lanes 0 to 15 name the rows.
__device__ inline void ldmatrix_x2(std::uint32_t& word0, std::uint32_t& word1, const unsigned char* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(word0), "=r"(word1)
               : "r"(shared_address(row))
               : "memory");
}

// sums[16, 8] += a[16, 32] * b[32, 8]: signed bytes both, and unsigned times signed ones. Lane l has row l / 4 of the
// sums, and eight on, and columns 2 (l % 4) and one on.
__device__ inline void mma_m16n8k32_s8(int (&sums)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                       std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline void mma_m16n8k32_s8(int (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma_m16n8k32_s8(sums, a[0], a[1], a[2], a[3], b[0], b[1]);
}

__device__ inline void mma_m16n8k32_u8_s8(int (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Waits for kThreads threads of whole warps that name the barrier, 1 to 15; barrier 0 is that of __syncthreads().
template <int kThreads>
__device__ inline void named_barrier_sync(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace reprofuse::cuda::ptx
