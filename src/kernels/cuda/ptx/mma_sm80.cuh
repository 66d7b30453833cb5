// Matrix products of a warp over 8-bit integers, and how their operands come from shared memory: compute
// capability 8.0.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/copy_sm80.cuh"

namespace reprofuse::cuda::ptx {

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

}  // namespace reprofuse::cuda::ptx
