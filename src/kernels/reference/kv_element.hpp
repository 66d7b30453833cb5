// Where the key and the value of one position and head lie in the pages.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/model_ops.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::reference {

struct KvPlace {
  std::int64_t head;  // elements before this page and head
  std::int64_t slot;  // within the page
  std::int64_t page_size;
  std::int64_t head_dim;

  std::int64_t key(std::int64_t d) const { return head + d * page_size + slot; }
  std::int64_t value(std::int64_t d) const { return head + slot * head_dim + d; }
};

inline KvPlace find_place(const kernels::KvPages& kv, const kernels::Batch& batch, std::int64_t sequence,
                          std::int64_t position, std::int64_t kv_head) {
  const std::int64_t page = batch.page_table[sequence * batch.page_table_stride + position / kv.page_size];
  return {.head = (page * kv.kv_heads + kv_head) * kv.head_dim * kv.page_size,
          .slot = position % kv.page_size,
          .page_size = kv.page_size,
          .head_dim = kv.head_dim};
}

inline float load_element(const void* elements, DType dtype, std::int64_t i) {
  return widen(dtype, load_weight(elements, dtype, i));
}

inline void store_element(void* elements, DType dtype, std::int64_t i, float value) {
  store_weight(elements, dtype, i,
               dtype == DType::kBF16 ? round_bf16_finite(value) : std::bit_cast<std::uint32_t>(value));
}

}  // namespace reprofuse::reference
