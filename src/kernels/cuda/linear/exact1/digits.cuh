// Weights as digits, and how an exact-1 kernel finds its output and leaves its results.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::exact1 {

// A weight row comes in vectors of 8 terms; of the 8 vectors in 64 terms, thread t of four takes vector 2t in a first
// step of 32 terms and 2t + 1 in a second, which is what the banks of shared memory like best. In each step the
// hardware gives the thread bytes 4t to 4t + 3 and 16 + 4t to 19 + 4t of the operand. No sum depends on the order of
// its terms, so the activations are stored in that order: term k at byte place_of_term(k).
__device__ inline int place_of_term(int k) {
  return (k & ~63) + (k >> 3 & 1) * 32 + (k >> 4 & 3) * 4 + (k & 4) * 4 + (k & 3);
}

// Where the vector of thread t in step `step` of a k-tile starts.
__device__ inline int first_term(int step, int t) {
  return step / 2 * 64 + t * 16 + step % 2 * 8;
}

// Bytes 0, 1 and 2 of four snapped weights become the lowest, middle and highest digits of a word each.
__device__ inline void gather_digits(const std::uint32_t (&snapped)[4], std::uint32_t& high, std::uint32_t& middle,
                                     std::uint32_t& low) {
  const std::uint32_t front = __byte_perm(snapped[0], snapped[1], 0x5140);
  const std::uint32_t back = __byte_perm(snapped[2], snapped[3], 0x5140);
  low = __byte_perm(front, back, 0x5410);
  middle = __byte_perm(front, back, 0x7632);
  high = __byte_perm(__byte_perm(snapped[0], snapped[1], 0x0062), __byte_perm(snapped[2], snapped[3], 0x0062), 0x5410);
}

inline constexpr int kThreadTerms = 8;  // of a weight row, in each 32

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

// A CTA's tile belongs to one output: the last whose first_tile is not beyond it.
__device__ inline const Output& output_of_tile(const Params& p, int tile) {
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_tile > tile) --i;
  return p.outputs[i];
}

__device__ inline int exponent_of(const Output& out, int n) {
  return static_cast<int>(out.exponents[min(n, out.n - 1)]) - 127;
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

// A column of an output: what all of its results need. Beyond the last it has the last one's exponent and no use.
struct Column {
  int n, exponent;
  float bias;

  __device__ Column(const Output& out, int n_, int exponent_)
      : n(n_), exponent(exponent_), bias(out.bias != nullptr && n < out.n ? out.bias[n] : 0.0f) {}
  __device__ Column(const Output& out, int n_) : Column(out, n_, exponent_of(out, n_)) {}
};

// A whole sum, out of which the bias of the weights has been taken, rounded, and the bias of the layer added.
__device__ inline float rounded(const Params& p, const Output& out, int m, const Column& column, const Row& row,
                                long long sum) {
  float y = row.finite ? result(sum, row.exponent, column.exponent) : __uint_as_float(0x7fffffffu);
  if (out.bias != nullptr) y = __fadd_rn(y, column.bias);
  record_if_not_finite(p.record, p.op, p.record_row + m, p.record_column + out.first_column + column.n, y);
  return y;
}

// Whether results of even and odd columns can be stored together.
__device__ inline bool stores_pairs(const Output& out) {
  return reinterpret_cast<std::uintptr_t>(out.y) % 8 == 0 && out.y_stride % 2 == 0;
}

__device__ inline void store_result(const Params& p, const Output& out, int m, const Column& column, const Row& row,
                                    long long sum) {
  const float y = rounded(p, out, m, column, row, sum);
  float* to = out.y + m * out.y_stride + column.n;
  asm volatile("st.global.f32 [%0], %1;" ::"l"(to), "f"(y) : "memory");  // volatile keeps program order
}

}  // namespace reprofuse::cuda::exact1
