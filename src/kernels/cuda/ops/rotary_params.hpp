// What the rotary kernel is given.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/kv_view.hpp"

namespace reprofuse::cuda::fma1::ops {

struct RotaryParams {
  float* q;        // [rows, heads * head_dim]
  const float* k;  // [rows, kv_heads * head_dim]
  const float* v;
  std::int64_t q_stride, k_stride, v_stride;
  const float* q_norm;  // [head_dim] or null
  const float* k_norm;
  const float* cos;  // [positions, head_dim / 2]
  const float* sin;
  const std::int32_t* positions;
  const std::int32_t* sequences;
  float eps;
  int heads;
  KvView kv;
};

inline constexpr int kRotaryWarps = 4;          // of a block; each owns one head of one row
inline constexpr int kMostRotaryHeadDim = 256;  // one chain of the norm per element

const void* rotary_kernel(bool bf16_kv);  // grid: rows, and heads + kv_heads over kRotaryWarps

}  // namespace reprofuse::cuda::fma1::ops
