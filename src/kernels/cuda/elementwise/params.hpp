// What the kernels of norms, rotary and elementwise operations are given.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "numerics/fma1.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cuda::ops {

struct RmsNormParams {
  float* x;            // [rows, k]
  const float* delta;  // [rows, k] or null
  const float* weight;
  float* y;  // [rows, k]
  std::int64_t x_stride, delta_stride, y_stride;
  int k;
  float eps;
  unsigned op;
  Record* record;
};

inline constexpr int kNormThreads = reprofuse::fma1::kNormLanes;  // one thread per chain

// One CTA per row. The kernel keeps the row in registers when k allows it.
const void* rms_norm_kernel(int k);

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

inline constexpr int kRotaryWarps = 4;  // of a CTA; each owns one head of one row

const void* rotary_kernel(bool bf16_kv);  // grid: rows, and heads + kv_heads over kRotaryWarps

struct EmbeddingParams {
  const void* table;  // [vocabulary, cols]
  std::int64_t table_stride;
  const std::int32_t* tokens;  // [rows]
  float* x;                    // [rows, cols]
  std::int64_t x_stride;
  int cols;
};

struct SiluGateParams {
  const float* gate;  // [rows, cols], all three
  const float* up;
  float* y;
  std::int64_t gate_stride, up_stride, y_stride;
  int cols;
  bool aligned;  // every row starts on 16 bytes, and cols is a multiple of four
};

struct GatherRowsParams {
  const float* x;
  const std::int32_t* rows;
  float* y;
  std::int64_t x_stride, y_stride;
  int cols;
};

struct RoundBf16Params {
  float* x;
  std::int64_t stride;
  int cols;
};

// Each thread owns kElements neighbours of a row.
inline constexpr int kElementThreads = 256;
inline constexpr int kElements = 4;

// Grid: rows, and cols over kElementThreads * kElements.
const void* embedding_kernel(DType dtype);
const void* silu_gate_kernel(bool aligned);
const void* gather_rows_kernel();
const void* round_bf16_kernel();

}  // namespace reprofuse::cuda::ops
