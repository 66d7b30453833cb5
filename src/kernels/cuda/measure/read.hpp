// A plain streaming read of device memory: the floor that benchmarks compare with.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace reprofuse::cuda {

// `sink` is one word, written only so that the reads are not dropped.
cudaError_t launch_read(const void* memory, std::size_t bytes, void* sink, int sm_count, cudaStream_t stream);

}  // namespace reprofuse::cuda
