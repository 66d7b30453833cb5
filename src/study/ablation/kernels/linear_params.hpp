// What every kernel of the ablated layer is given, and the tables of those kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "study/ablation/kernels/linear.hpp"

namespace reprofuse::cuda::ablation {

using reprofuse::ablation::Arithmetic;
using reprofuse::ablation::Tile;

inline constexpr int kThreads = 128;

struct Params {
  const float* x;          // [m, k]
  const std::uint16_t* w;  // [n, k] of BF16
  float* y;                // [m, n]
  float* partials;         // [splits, m, n], or null when there is one split or the merge is atomic
  int m, n, k;
  int split_length;  // terms of K that CTA z sums
  int splits;
  bool atomic;
};

// A kernel takes a Params and a grid of (row tiles, column tiles, splits) of kThreads.
struct Kernel {
  Arithmetic arithmetic;
  Tile tile;
  const void* function;
};

std::vector<Kernel> ieee_kernels();
std::vector<Kernel> tensor_core_kernels();

// y = partials[0] + partials[1] + ..., in that order.
cudaError_t launch_fold_splits(const Params& params, cudaStream_t stream);

}  // namespace reprofuse::cuda::ablation
