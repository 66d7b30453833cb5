// Weights of exact-1 as digits, and sums of their products as results.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/integer/terms.cuh"

namespace reprofuse::cuda::exact1 {

// Bytes 0, 1 and 2 of four snapped weights become the lowest, middle and highest digits of a word each.
__device__ inline void gather_digits(const std::uint32_t (&snapped)[4], std::uint32_t& high, std::uint32_t& middle,
                                     std::uint32_t& low) {
  const std::uint32_t front = __byte_perm(snapped[0], snapped[1], 0x5140);
  const std::uint32_t back = __byte_perm(snapped[2], snapped[3], 0x5140);
  low = __byte_perm(front, back, 0x5410);
  middle = __byte_perm(front, back, 0x7632);
  high = __byte_perm(__byte_perm(snapped[0], snapped[1], 0x0062), __byte_perm(snapped[2], snapped[3], 0x0062), 0x5410);
}

// The digits of a thread's terms of weight rows r and r + 8, laid out as the operand of a matrix product: words 0 and 2
// are row r, words 1 and 3 row r + 8.
__device__ inline void split_weights(const float (&row)[kThreadTerms], const float (&row8)[kThreadTerms], float scale,
                                     float scale8, std::uint32_t (&digits)[kDigits][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t snapped[4], snapped8[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      snapped[e] = snap_weight(row[half * 4 + e], scale);
      snapped8[e] = snap_weight(row8[half * 4 + e], scale8);
    }
    gather_digits(snapped, digits[0][half * 2], digits[1][half * 2], digits[2][half * 2]);
    gather_digits(snapped8, digits[0][half * 2 + 1], digits[1][half * 2 + 1], digits[2][half * 2 + 1]);
  }
}

// The classes of one output's digit products, combined. In assembly, because a compiler that combines those of many
// outputs ahead of their turn runs out of registers.
__device__ inline long long combined(int c0, int c1, int c2, int c3) {
  long long sum;
  asm volatile(
      "{\n.reg .s64 next;\n"
      "cvt.s64.s32 next, %2;\nmad.wide.s32 %0, %1, 256, next;\n"
      "cvt.s64.s32 next, %3;\nmad.lo.s64 %0, %0, 256, next;\n"
      "cvt.s64.s32 next, %4;\nmad.lo.s64 %0, %0, 256, next;\n"
      "shl.b64 %0, %0, 8;\n}"
      : "=&l"(sum)
      : "r"(c0), "r"(c1), "r"(c2), "r"(c3));
  return sum;
}

// An exponent of weights that came in a byte.
__device__ inline int weight_exponent_of(int byte) {
  return byte - 127;
}

__device__ inline float scale_of_weights(int byte) {
  return weight_scale(weight_exponent_of(byte));
}

// Of a whole sum, out of which the bias of the weights has been taken.
__device__ inline float unbiased_result(const Row& row, long long sum, int weight_byte) {
  const float y = result(sum, row.exponent, weight_exponent_of(weight_byte));
  return row.finite ? y : __uint_as_float(0x7fffffffu);
}

}  // namespace reprofuse::cuda::exact1
