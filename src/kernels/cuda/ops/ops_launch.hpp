// What the host side of every operation of the model does first.
#pragma once

#include "kernels/cuda/ops/model_ops.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/runtime/record.hpp"

namespace reprofuse::cuda {

inline constexpr std::int64_t kMostGridYZ = 65535;

inline void require_rows(const char* op, std::int64_t rows) {
  constexpr std::int64_t kMost = std::int64_t{1} << kPlaceBits;
  require(rows < kMost, "{}: {} rows; the CUDA backend takes fewer than {} in one call", op, rows, kMost);
}

inline Record* record_of(const Launch& launch) {
  return static_cast<Record*>(launch.workspace);
}

}  // namespace reprofuse::cuda
