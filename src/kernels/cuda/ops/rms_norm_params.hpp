// What the norm's kernel is given.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/record.hpp"
#include "numerics/order.hpp"

namespace reprofuse::cuda::fma1::ops {

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

// One block per row. The kernel keeps the row in registers when k allows it.
const void* rms_norm_kernel(int k);

}  // namespace reprofuse::cuda::fma1::ops
