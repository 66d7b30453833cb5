// Makes the kernels' view of the pages, and refuses those that they cannot read.
#pragma once

#include <bit>

#include "base/check.hpp"
#include "kernels/cuda/attention/kv_view.hpp"
#include "kernels/model_ops.hpp"

namespace reprofuse::cuda {

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
