// What can be wrong with the operands of public operations, and where they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/schemes.hpp"
#include "reprofuse/ops.hpp"

namespace reprofuse {

// Of the calls of operations: kInvalidArgument with the place and the value. `readable` says that the arrays are host
// memory, so that what they hold is checked as well.
void check_embedding(const std::string& name, const EmbeddingCall& call, bool readable);
void check_rms_norm(const std::string& name, const RmsNormCall& call);
void check_rotary(const std::string& name, const RotaryCall& call, const kernels::CacheFormat& cache, bool readable);
void check_attention(const std::string& name, const AttentionCall& call, const kernels::CacheFormat& cache,
                     bool readable);
void check_silu_gate(const std::string& name, const SiluGateCall& call);
void check_gather_rows(const std::string& name, const GatherRowsCall& call, bool readable);

void check_kv_page(const std::string& name, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size,
                   const kernels::CacheFormat& cache);
void check_attention_sizes(const std::string& name, const AttentionSizes& sizes);
void check_workspace_bytes(const std::string& name, WorkspaceView workspace, std::size_t needed);

// What is wrong with how a matrix of `rows` >= 0 lies in memory: "x has row stride 3, less than its 4 columns". Empty:
// nothing.
std::string layout_problem(const char* what, const float* data, std::int64_t rows, std::int64_t cols,
                           std::int64_t stride);

// What the checks ask: where operands lie in memory, and whether two of them share any of it.
inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// Rows of `bytes`, their starts `stride` bytes apart.
struct Region {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uintptr_t bytes = 0;
  std::uintptr_t stride = 0;  // 0: a single row
};

// Of `rows` > 0 rows of `cols` elements each.
inline Region region(const void* data, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                     std::size_t element = sizeof(float)) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t bytes = static_cast<std::uintptr_t>(cols) * element;
  const std::uintptr_t step = rows > 1 ? static_cast<std::uintptr_t>(stride) * element : 0;
  return {begin, begin + static_cast<std::uintptr_t>(rows - 1) * step + bytes, bytes, step};
}

// Rows that interleave share nothing when they have one stride and different columns of it. Rows of two strides in one
// stretch of memory count as overlapping: nobody lays out matrices so, and an exact answer would cost a walk over rows.
inline bool overlap(Region a, Region b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (b.begin < a.begin) std::swap(a, b);
  const std::uintptr_t stride = a.stride == 0 ? b.stride : a.stride;
  if (stride == 0 || (b.stride != 0 && b.stride != stride)) return true;
  const std::uintptr_t column = (b.begin - a.begin) % stride;
  return column < a.bytes || column + b.bytes > stride;
}

}  // namespace reprofuse
