// How a kernel of the ablated layer fills its tiles and leaves its sums.
#pragma once

#include "numerics/order.hpp"
#include "study/ablation/kernels/linear_params.hpp"

namespace reprofuse::cuda::ablation {

// The block's part of K.
__device__ inline int part_begin(const Params& p) {
  return blockIdx.z * p.part_length;
}
__device__ inline int part_end(const Params& p) {
  return min(p.k, part_begin(p) + p.part_length);
}

// Calls store(row, term, value) for kRows x kTerms values of x from (row0, k0). Beyond the edges the values are those
// of the contract's padding, which changes no sum. k is a multiple of 4, so four terms are inside or outside together.
template <int kRows, int kTerms, typename Store>
__device__ void load_x(const Params& p, int row0, int k0, int k_end, const Store& store) {
  constexpr int kVectors = kTerms / 4;
  for (int i = threadIdx.x; i < kRows * kVectors; i += kThreads) {
    const int row = i / kVectors, term = i % kVectors * 4;
    constexpr float kPad = reprofuse::fma1::kPadX;
    float4 values = make_float4(kPad, kPad, kPad, kPad);
    if (row0 + row < p.m && k0 + term < k_end)
      values = *reinterpret_cast<const float4*>(p.x + std::int64_t{row0 + row} * p.k + k0 + term);
    store(row, term, values.x);
    store(row, term + 1, values.y);
    store(row, term + 2, values.z);
    store(row, term + 3, values.w);
  }
}

// Likewise of the weights, widened; their padding is +0.
template <int kColumns, int kTerms, typename Store>
__device__ void load_w(const Params& p, int column0, int k0, int k_end, const Store& store) {
  constexpr int kVectors = kTerms / 4;
  for (int i = threadIdx.x; i < kColumns * kVectors; i += kThreads) {
    const int column = i / kVectors, term = i % kVectors * 4;
    uint2 words = make_uint2(0, 0);
    if (column0 + column < p.n && k0 + term < k_end)
      words = *reinterpret_cast<const uint2*>(p.w + std::int64_t{column0 + column} * p.k + k0 + term);
    store(column, term, __uint_as_float(words.x << 16));
    store(column, term + 1, __uint_as_float(words.x & 0xffff0000u));
    store(column, term + 2, __uint_as_float(words.y << 16));
    store(column, term + 3, __uint_as_float(words.y & 0xffff0000u));
  }
}

__device__ inline void leave_sum(const Params& p, int row, int column, float sum) {
  if (row >= p.m || column >= p.n) return;
  const std::int64_t at = std::int64_t{row} * p.n + column;
  if (p.atomic)
    atomicAdd(p.y + at, sum);
  else if (p.parts > 1)
    p.partials[std::int64_t{blockIdx.z} * p.m * p.n + at] = sum;
  else
    p.y[at] = sum;
}

}  // namespace reprofuse::cuda::ablation
