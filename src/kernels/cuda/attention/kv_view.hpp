// The pages of one layer as a kernel is told of them.
#pragma once

#include <cstdint>

#include "base/math.hpp"

namespace reprofuse::cuda {

struct KvView {
  void* keys;    // [pages, kv_heads, head_dim, page_size]
  void* values;  // [pages, kv_heads, page_size, head_dim]
  const std::int32_t* page_table;
  int page_table_stride;
  int kv_heads;
  int head_dim;
  int page_shift;  // page_size = 1 << page_shift

  REPROFUSE_HOST_DEVICE int page_size() const { return 1 << page_shift; }
  // Elements before a page's share of one head, in keys and in values alike.
  REPROFUSE_HOST_DEVICE std::int64_t head_offset(int page, int kv_head) const {
    return (static_cast<std::int64_t>(page) * kv_heads + kv_head) * head_dim << page_shift;
  }
  REPROFUSE_HOST_DEVICE int page_of(int sequence, int position) const {
    return page_table[static_cast<std::int64_t>(sequence) * page_table_stride + (position >> page_shift)];
  }
};

}  // namespace reprofuse::cuda
