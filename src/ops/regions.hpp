// Where operands lie in memory, and whether two of them share any of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprofuse {

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
