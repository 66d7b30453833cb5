// What the elementwise kernels are given. Each thread owns kElements neighbours of a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "reprofuse/types.hpp"

namespace reprofuse::cuda::fma1::ops {

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

inline constexpr int kElementThreads = 256;
inline constexpr int kElements = 4;

// Grid: rows, and cols over kElementThreads * kElements.
const void* embedding_kernel(DType dtype);
const void* silu_gate_kernel(bool aligned);  // aligned: every row starts on 16 bytes, and cols is a multiple of four
const void* gather_rows_kernel();
const void* round_bf16_kernel();

}  // namespace reprofuse::cuda::fma1::ops
