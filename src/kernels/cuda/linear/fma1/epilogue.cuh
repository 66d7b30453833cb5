// Epilogue of the fma-1 linear kernels: which output a tile belongs to, and where its results go.
#pragma once

#include "kernels/cuda/linear/fma1/params.hpp"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::fma1 {

// A CTA's tile belongs to one output: the last whose first_tile is not beyond it.
__device__ inline int output_index_of_tile(const Params& p, int tile) {
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_tile > tile) --i;
  return i;
}

__device__ inline void store_result(const Params& p, const Output& out, int m, int n, float total) {
  const float y = out.bias == nullptr ? total : __fadd_rn(total, out.bias[n]);
  record_if_not_finite(p.record, p.op, m, p.record_column + out.first_column + n, y);
  out.y[m * out.y_stride + n] = y;
}

__device__ inline void store(const Params& p, const Output& out, int m, int n, float value) {
  if (m >= p.m || n >= out.n) return;
  if (p.split_k)
    p.partials[(std::int64_t{blockIdx.z} * p.m + m) * p.columns + out.first_column + n] = value;
  else
    store_result(p, out, m, n, value);
}

// Four neighbours in a row, stored together where the row allows it.
__device__ inline void store4(const Params& p, const Output& out, int m, int n, const float4& value) {
  const std::int64_t partial = (std::int64_t{blockIdx.z} * p.m + m) * p.columns + out.first_column + n;
  if (p.split_k && m < p.m && n + 3 < out.n && partial % 4 == 0) {
    *reinterpret_cast<float4*>(p.partials + partial) = value;
    return;
  }
  store(p, out, m, n, value.x);
  store(p, out, m, n + 1, value.y);
  store(p, out, m, n + 2, value.z);
  store(p, out, m, n + 3, value.w);
}

}  // namespace reprofuse::cuda::fma1
