// What the kernels of norms and elementwise operations are given.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

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
