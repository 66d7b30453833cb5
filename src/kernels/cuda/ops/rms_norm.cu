#include "kernels/cuda/ops/rms_norm.cuh"

namespace reprofuse::cuda::fma1::ops {
namespace {

template <int kHeld>
__global__ __launch_bounds__(kNormThreads) void rms_norm_held(const __grid_constant__ RmsNormParams p) {
  let_next_kernel_start();
  HeldNorm<kHeld> held;
  held.load_weight(p);
  wait_for_previous_kernel();
  float* y = p.y + blockIdx.x * p.y_stride;
  held.run(p, [&](int column, float value) { y[column] = value; });
}

// Rows of any length: read twice.
__global__ __launch_bounds__(kNormThreads) void rms_norm_long(const __grid_constant__ RmsNormParams p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  float* row = p.x + blockIdx.x * p.x_stride;
  float chain = 0.0f;
#pragma unroll 8
  for (int at = threadIdx.x; at < p.k; at += kNormThreads) {
    float x = row[at];
    if (p.delta != nullptr) {
      x = __fadd_rn(x, p.delta[blockIdx.x * p.delta_stride + at]);
      row[at] = x;
    }
    chain = fma_rn(x, x, chain);
  }
  const float inverse = scale_of_row(p, chain);
  float* y = p.y + blockIdx.x * p.y_stride;
#pragma unroll 8
  for (int at = threadIdx.x; at < p.k; at += kNormThreads) y[at] = __fmul_rn(p.weight[at], __fmul_rn(row[at], inverse));
}

}  // namespace

const void* rms_norm_kernel(int k) {
  if (k <= 4 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<4>);
  if (k <= 12 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<12>);
  if (k <= 16 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<16>);
  if (k <= 32 * kNormThreads) return reinterpret_cast<const void*>(&rms_norm_held<32>);
  return reinterpret_cast<const void*>(&rms_norm_long);
}

}  // namespace reprofuse::cuda::fma1::ops
