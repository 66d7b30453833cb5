// What every fma-1 linear kernel is given.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/linear/problem.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda::fma1 {

using reprofuse::fma1::kSegment;

// Stages of kernels fed by the TMA.
inline constexpr int kMinStages = 2, kMaxStages = 4;  // with more, x would queue behind weights at the start

struct Output {
  CUtensorMap map;    // of w, for kernels fed by the TMA
  const void* w;      // [n, k]
  const float* bias;  // [n] or null
  float* y;           // [m, n]
  std::int64_t w_stride;
  std::int64_t y_stride;
  int n;
  int first_tile;    // of the launch's column tiles
  int first_column;  // of the concatenated outputs of this launch
};

struct Params {
  CUtensorMap x_map;  // likewise
  const float* x;     // [m, k]
  std::int64_t x_stride;
  int m;
  int k;
  int count;          // outputs
  int columns;        // of all outputs of this launch
  int record_column;  // of the first output, over the whole op
  unsigned op;
  bool split_k;     // CTA z owns segment z alone and leaves a partial; otherwise a CTA folds all segments itself
  float* partials;  // [segments, m, columns]
  int stages;       // of kernels that take as many as fit
  Record* record;
  Output outputs[kMaxOutputs];
};

// Folds the partials of a split-K in ascending order of segments, then adds the bias.
cudaError_t load_fold_ascending();
cudaError_t launch_fold_ascending(const Params& params, cudaStream_t stream);

}  // namespace reprofuse::cuda::fma1
