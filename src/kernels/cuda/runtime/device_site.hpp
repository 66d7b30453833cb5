// Where an operation runs, and what the host side of any operation does with it.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/op_calls.hpp"

namespace reprofuse::cuda {

// Its workspace begins with the record, kWorkspaceHead bytes. Nothing is waited for: results, and the record of what is
// not finite, are there when the stream is done. A non-finite result is recorded with `op`, its row and its column,
// which is 0 for a norm and the head for attention.
struct DeviceSite : kernels::OpSite {
  int ordinal = 0;
};

inline Record* record_of(const DeviceSite& site) {
  return static_cast<Record*>(site.workspace);
}

inline void require_rows(const char* op, std::int64_t rows) {
  require(rows < kMaxRows, "{}: {} rows; the CUDA backend takes fewer than {} in one call", op, rows, kMaxRows);
}

}  // namespace reprofuse::cuda
