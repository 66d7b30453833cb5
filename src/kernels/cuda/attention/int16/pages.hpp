// Where the digits of keys and values lie in a page, by contracts int16-1 and exact-2. A page has, for each head, the
// highest digits of all its positions, then the next, as 8-bit numbers in core matrices of 8 rows by 16 bytes, which is
// how a matrix product finds an operand in shared memory: a copy of bytes is all it takes to bring it there.
#pragma once

#include <cstdint>

#include "base/math.hpp"

namespace reprofuse::cuda::int16::ops {

inline constexpr int kCoreRows = 8, kCoreBytes = 128, kCoreRowBytes = 16;
inline constexpr int kKeyGroup = 16;  // keys whose values lie in one core matrix

// A score sits in a register of the thread that needs it as a weight, if inside a group values lie in this order: the
// results of a product are pairs of columns, 8 apart, its left operand is four bytes in a row. Keys of a block have no
// order, so any will do.
REPROFUSE_HOST_DEVICE inline int place_in_group(int key) {
  return (key >> 1 & 3) * 4 + (key >> 3 & 1) * 2 + (key & 1);
}

// One head of one page, in bytes.
struct HeadPage {
  int head_dim, page_size;

  REPROFUSE_HOST_DEVICE std::int64_t plane_bytes() const { return std::int64_t{head_dim} * page_size; }
  // Core matrices of a key: 8 positions by 16 elements, neighbours along the elements.
  REPROFUSE_HOST_DEVICE int key(int slot, int d) const {
    return (slot / kCoreRows * (head_dim / kCoreRowBytes) + d / kCoreRowBytes) * kCoreBytes +
           slot % kCoreRows * kCoreRowBytes + d % kCoreRowBytes;
  }
  // Of a value: 8 elements by 16 positions, neighbours along the elements.
  REPROFUSE_HOST_DEVICE int value(int slot, int d) const {
    return (slot / kKeyGroup * (head_dim / kCoreRows) + d / kCoreRows) * kCoreBytes + d % kCoreRows * kCoreRowBytes +
           place_in_group(slot % kKeyGroup);
  }
};

}  // namespace reprofuse::cuda::int16::ops
