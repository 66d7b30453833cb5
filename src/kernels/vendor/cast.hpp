// Changes of number format on the device, and the bias: what the baselines need around a vendor's product.
// Enqueued on `stream` (a cudaStream_t); nothing is allocated and nothing waits.
#pragma once

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

}  // namespace reprofuse::cuda
