// Weights of int16-1 as digits, and sums of their products as results.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/int16/params.hpp"
#include "kernels/cuda/linear/integer/terms.cuh"

namespace reprofuse::cuda::int16 {

// Of four integers, each plus 128: byte 1 is the high digit, byte 0 the low one plus 128.
__device__ inline void gather_digits(const std::uint32_t (&biased)[4], std::uint32_t& high, std::uint32_t& low) {
  const std::uint32_t front = __byte_perm(biased[0], biased[1], 0x5140);
  const std::uint32_t back = __byte_perm(biased[2], biased[3], 0x5140);
  low = __byte_perm(front, back, 0x5410) ^ 0x80808080u;
  high = __byte_perm(front, back, 0x7632);
}

// rint(value / unit) + 128 in the low 16 bits.
__device__ inline std::uint32_t snap_biased(float value, float inverse) {
  return __float_as_uint(__fmaf_rn(value, inverse, kRoundToInteger + 128.0f));
}

// The digits of a thread's terms of weight rows r and r + 8, laid out as the operand of a matrix product: words 0 and 2
// are row r, words 1 and 3 row r + 8.
__device__ inline void split_weights(const float (&row)[kThreadTerms], const float (&row8)[kThreadTerms], float inverse,
                                     float inverse8, std::uint32_t (&digits)[kDigits][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t biased[4], biased8[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      biased[e] = snap_biased(row[half * 4 + e], inverse);
      biased8[e] = snap_biased(row8[half * 4 + e], inverse8);
    }
    gather_digits(biased, digits[0][half * 2], digits[1][half * 2]);
    gather_digits(biased8, digits[0][half * 2 + 1], digits[1][half * 2 + 1]);
  }
}

// total + (256 * high + mid) * factor: a block of terms in its place among all.
__device__ inline long long add_block(long long total, int high, int mid, int factor) {
  return total + static_cast<long long>(high * 256 + mid) * factor;
}

__device__ inline float unbiased_result(const Row& row, long long sum, int weight_unit) {
  const float y = result(sum, row.unit, weight_unit);
  return row.unit != kNotFinite ? y : __uint_as_float(0x7fffffffu);
}

}  // namespace reprofuse::cuda::int16
