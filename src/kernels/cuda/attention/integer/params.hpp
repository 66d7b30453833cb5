// The attention kernels of contracts int16-1 and exact-2, how they are launched, and where the digits of keys and
// values lie in a page. N is TwoDigits or ThreeDigits.
#pragma once

#include <cstdint>

#include "base/math.hpp"
#include "kernels/cuda/attention/params.hpp"
#include "numerics/attention_integer.hpp"

namespace reprofuse::cuda::integer_attention {

using ops::AttentionKernel;
using ops::AttentionParams;
using ops::kMaxClusterCtas;
using ops::kMaxHeadDim;
using ops::kMaxSetHeads;
using reprofuse::int16::kKeyBlock;

template <typename N>
const void* rotary_kernel();  // launched as ops::rotary_kernel is

// Where a CTA has a few queries: of the kernels that read pages themselves, and of decode by the TMA.
inline constexpr int kFewQueries = 8;           // rows times set_heads, at most
inline constexpr int kFewQueriesThreads = 128;  // that work on them

// On any device, for any heads.
inline constexpr int kDirectCtasPerSm = 2;  // with heads of 128 elements
template <typename N>
AttentionKernel decode_kernel(int head_dim);  // grid: splits, kv_heads * sets, decode items
template <typename N>
AttentionKernel prefill_rows_kernel(int head_dim);  // grid: tiles of the longest chunk, kv_heads * sets, chunks

// What the kernels below are given. Where they rotate, q comes as it was before, and each row, the only one of its
// sequence, stores its own key and value.
struct DecodeParams : AttentionParams {
  ops::RotaryParams rotary{};  // k = null: that op has run

  REPROFUSE_HOST_DEVICE bool rotates() const { return rotary.k != nullptr; }
};

// The same where there is a TMA, for heads of 64 or 128 elements; a null function for others. `cluster`: the CTAs of a
// row and set are one, with at most one key block each, and there is no merge.
template <typename N>
AttentionKernel stream_kernel(int head_dim, bool cluster);

// Grid: heads, decode items.
template <typename N>
AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small);

// By wgmma, on compute capability 9.0 alone; a null function for heads that it does not take. Grid: tiles of the
// longest chunk, kv_heads * sets, chunks.
inline constexpr int kPrefillQueries = 128;  // rows of a tile times set_heads, at most
template <typename N>
AttentionKernel prefill_kernel(int head_dim);

// A page has, for each head, the highest digits of all its positions, then the next, as 8-bit numbers in core matrices
// of 8 rows by 16 bytes, which is how a matrix product finds an operand in shared memory: a copy of bytes is all it
// takes to bring it there.
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

}  // namespace reprofuse::cuda::integer_attention
