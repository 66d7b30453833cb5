#include "study/ablation/kernels/linear_params.hpp"

namespace reprofuse::cuda::ablation {
namespace {

constexpr int kFoldThreads = 256;

__global__ void fold_parts(const __grid_constant__ Params p) {
  const std::int64_t values = std::int64_t{p.m} * p.n;
  const std::int64_t at = std::int64_t{blockIdx.x} * kFoldThreads + threadIdx.x;
  if (at >= values) return;
  float total = p.partials[at];
  for (int part = 1; part < p.parts; ++part) total = __fadd_rn(total, p.partials[part * values + at]);
  p.y[at] = total;
}

}  // namespace

cudaError_t launch_fold_parts(const Params& params, cudaStream_t stream) {
  const std::int64_t values = std::int64_t{params.m} * params.n;
  const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(values, kFoldThreads));
  fold_parts<<<blocks, kFoldThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace reprofuse::cuda::ablation
