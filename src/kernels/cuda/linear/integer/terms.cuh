// The order of terms in the operands of integer products, and how a kernel finds its output and leaves its results.
// What is a contract's own is found by the type of its rows: unbiased_result(row, sum, exponent).
#pragma once

#include "kernels/cuda/linear/integer/params.hpp"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::integer {

// Of the 8 vectors of 8 terms in 64, thread t of four reads vector 2t in a first step of 32 terms and 2t + 1 in a
// second, without bank conflicts; in a product's operand it has bytes 4t to 4t + 3 and 16 + 4t to 19 + 4t. No sum
// depends on the order of its terms, so the activations are stored in that order: term k at byte place_of_term(k).
__device__ inline int place_of_term(int k) {
  return (k & ~63) + (k >> 3 & 1) * 32 + (k >> 4 & 3) * 4 + (k & 4) * 4 + (k & 3);
}

// Where the vector of thread t in step `step` of a k-tile starts.
__device__ inline int first_term(int step, int t) {
  return step / 2 * 64 + t * 16 + step % 2 * 8;
}

inline constexpr int kThreadTerms = 8;  // of a weight row, in each 32

// Where the four terms from k on, a multiple of 4, lie in row m of a k-tile's digits:
// [rows / 8][kTileK / 16][8 rows][16 terms].
__device__ inline int place_in_digits(int m, int k) {
  const int place = place_of_term(k);
  return m / 8 * (kTileK * 8) + m % 8 * 16 + place / 16 * 128 + place % 16;
}

// A CTA's tile belongs to one output: the last whose first_tile is not beyond it.
__device__ inline const Output& output_of_tile(const Params& p, int tile) {
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_tile > tile) --i;
  return p.outputs[i];
}

// As the contract writes it. Beyond the last column it is the last one's, of no use.
__device__ inline int exponent_byte(const Output& out, int n) {
  return out.exponents[min(n, out.n - 1)];
}

// A column of an output: what all of its results need.
struct Column {
  int n, exponent;
  float bias;

  __device__ Column(const Output& out, int n_, int exponent_)
      : n(n_), exponent(exponent_), bias(out.bias != nullptr && n < out.n ? out.bias[n] : 0.0f) {}
  __device__ Column(const Output& out, int n_) : Column(out, n_, exponent_byte(out, n_)) {}
};

// A whole sum, rounded, and the bias of the layer added.
template <typename Row>
__device__ inline float rounded(const Params& p, const Output& out, int m, const Column& column, const Row& row,
                                long long sum) {
  float y = unbiased_result(row, sum, column.exponent);
  if (out.bias != nullptr) y = __fadd_rn(y, column.bias);
  record_if_not_finite(p.record, p.op, p.record_row + m, p.record_column + out.first_column + column.n, y);
  return y;
}

// Whether results of even and odd columns can be stored together.
__device__ inline bool stores_pairs(const Output& out) {
  return reinterpret_cast<std::uintptr_t>(out.y) % 8 == 0 && out.y_stride % 2 == 0;
}

template <typename Row>
__device__ inline void store_result(const Params& p, const Output& out, int m, const Column& column, const Row& row,
                                    long long sum) {
  const float y = rounded(p, out, m, column, row, sum);
  float* to = out.y + m * out.y_stride + column.n;
  asm volatile("st.global.f32 [%0], %1;" ::"l"(to), "f"(y) : "memory");  // volatile keeps program order
}

}  // namespace reprofuse::cuda::integer
