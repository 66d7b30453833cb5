// What the host side of every operation of the model does first.
#pragma once

#include <bit>

#include "kernels/cuda/attention/kv_view.hpp"
#include "kernels/cuda/ops/model_ops.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/runtime/record.hpp"

namespace reprofuse::cuda {

inline void require_rows(const char* op, std::int64_t rows) {
  require(rows < kMaxRows, "{}: {} rows; the CUDA backend takes fewer than {} in one call", op, rows, kMaxRows);
}

inline Record* record_of(const Launch& launch) {
  return static_cast<Record*>(launch.workspace);
}

// The kernels' view of the pages; refuses those that they cannot read.
inline KvView view_of(const char* op, const kernels::KvPages& kv, const kernels::Batch& batch) {
  const auto page_size = static_cast<unsigned>(kv.page_size);
  require(std::has_single_bit(page_size) && page_size >= 16, "{}: page size {} is not a power of two from 16 up", op,
          kv.page_size);
  require(kv.dtype != DType::kF16, "{}: keys and values in f16 are not supported", op);
  return {.keys = kv.keys,
          .values = kv.values,
          .page_table = batch.page_table,
          .page_table_stride = batch.page_table_stride,
          .kv_heads = kv.kv_heads,
          .head_dim = kv.head_dim,
          .page_shift = std::countr_zero(page_size)};
}

}  // namespace reprofuse::cuda
