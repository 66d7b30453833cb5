#include "base/math.hpp"
#include "kernels/cuda/linear/fma1/epilogue.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::fma1 {
namespace {

constexpr int kThreads = 256;

// Bits: equal the end of reference::linear_fma1: totals of segments, in their order.
__global__ void fold_ascending(const __grid_constant__ Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const auto segments = static_cast<int>(reprofuse::fma1::segment_count(p.k));
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int m = blockIdx.y;
  if (column >= p.columns) return;
  const std::int64_t stride = std::int64_t{p.m} * p.columns;
  const float* partial = p.partials + std::int64_t{m} * p.columns + column;
  float total = partial[0];
#pragma unroll 8
  for (int s = 1; s < segments; ++s) total = __fadd_rn(total, partial[s * stride]);
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_column > column) --i;
  store_result(p, p.outputs[i], m, column - p.outputs[i].first_column, total);
}

}  // namespace

cudaError_t load_fold_ascending() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, fold_ascending);
}

cudaError_t launch_fold_ascending(const Params& params, cudaStream_t stream) {
  const dim3 grid(ceil_div(params.columns, kThreads), params.m);
  return launch_kernel(reinterpret_cast<const void*>(fold_ascending), {grid, kThreads}, params, stream);
}

}  // namespace reprofuse::cuda::fma1
