// The launches behind the casts of libraries.hpp.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "reprofuse/types.hpp"

namespace reprofuse::cuda {

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
