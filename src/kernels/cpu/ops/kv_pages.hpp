// Where the key and the value of one position and head lie in the pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/model_ops.hpp"

namespace reprofuse::cpu {

struct KvSlot {
  std::byte* key;    // elements page_size apart
  std::byte* value;  // elements side by side
};

inline KvSlot find_slot(const kernels::KvPages& kv, const kernels::Batch& batch, std::int64_t sequence,
                        std::int64_t position, std::int64_t kv_head) {
  const std::int64_t page = batch.page_table[sequence * batch.page_table_stride + position / kv.page_size];
  const std::int64_t head = (page * kv.kv_heads + kv_head) * kv.head_dim * kv.page_size;
  const std::int64_t slot = position % kv.page_size;
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(kv.dtype));
  return {.key = static_cast<std::byte*>(kv.keys) + (head + slot) * bytes,
          .value = static_cast<std::byte*>(kv.values) + (head + slot * kv.head_dim) * bytes};
}

}  // namespace reprofuse::cpu
