// Changes of number format on the device, and the bias: what the baselines need around a vendor's product.
// Enqueued on `stream` (a cudaStream_t); nothing is allocated and nothing waits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "reprofuse/types.hpp"

namespace reprofuse::cuda {

// to: [n, k], dense. Exact.
void enqueue_widen(int ordinal, const WeightView& weight, float* to, void* stream);

// to: [rows, cols] of BF16, dense, rounded to nearest even.
void enqueue_round_bf16(int ordinal, ConstMatrix from, void* to, void* stream);

// y = from, widened; with a bias, y = bf16(from + bias), widened. from: [y.rows, y.cols] of BF16, dense.
void enqueue_widen_bf16_result(int ordinal, const void* from, const float* bias, Matrix y, void* stream);

// y = y + bias
void enqueue_add_bias(int ordinal, const float* bias, Matrix y, void* stream);

// The launches behind them.

// Rows of elements; a row's start is `stride` elements after the one before.
struct CastRows {
  const void* from;
  std::int64_t from_stride;
  void* to;
  std::int64_t to_stride;
  std::int64_t rows;
  std::int64_t cols;
  const float* bias;  // [cols], or null; added in binary32 after widening
};

cudaError_t launch_widen_bf16(const CastRows& cast, int sm_count, cudaStream_t stream);
cudaError_t launch_widen_f16(const CastRows& cast, int sm_count, cudaStream_t stream);
cudaError_t launch_round_bf16(const CastRows& cast, int sm_count, cudaStream_t stream);
// BF16 to binary32; a sum with the bias is rounded to BF16 on its way.
cudaError_t launch_widen_bf16_result(const CastRows& cast, int sm_count, cudaStream_t stream);
cudaError_t launch_add_bias(const CastRows& cast, int sm_count, cudaStream_t stream);

}  // namespace reprofuse::cuda
