// Checks of a linear layer's operands that every CUDA contract makes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/runtime/backend.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/runtime/record.hpp"

namespace reprofuse::cuda {

inline constexpr std::int64_t kMaxColumns = 4'000'000;
static_assert(kMaxColumns / 64 + 8 <= kMaxGridYZ && kMaxColumns < kMaxRows, "the narrowest tile must fit a grid");

inline bool is_vector_aligned(const void* data, std::int64_t stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

inline void require_columns(const std::string& name, std::int64_t columns) {
  require(columns <= kMaxColumns, "linear '{}': {} output columns; the CUDA backend takes at most {} in one layer",
          name, columns, kMaxColumns);
}

inline void require_rows(const std::string& name, std::int64_t rows) {
  require(rows < kMaxRows, "linear '{}': {} rows; the CUDA backend takes fewer than {} in one call", name, rows,
          kMaxRows);
}

inline void require_device_memory(const std::string& name, std::size_t weight, const void* pointer) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
          "linear '{}' weight {}: the data pointer is not CUDA device memory", name, weight);
}

inline void require_workspace_alignment(const std::string& name, const void* workspace) {
  require(reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0,
          "linear '{}': the workspace at {} is not aligned to {} bytes", name, workspace, kWorkspaceAlignment);
}

}  // namespace reprofuse::cuda
