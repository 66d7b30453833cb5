// The attention kernels of contracts int16-1 and exact-2, and how they are launched. N is TwoDigits or ThreeDigits.
#pragma once

#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/ops/params.hpp"
#include "numerics/digit_attention.hpp"

namespace reprofuse::cuda::int16::ops {

using fma1::ops::AttentionKernel;
using fma1::ops::AttentionParams;
using fma1::ops::kMaxHeadDim;
using fma1::ops::kMaxSetHeads;
using reprofuse::int16::kKeyBlock;

template <typename N>
const void* rotary_kernel();  // launched as fma1::ops::rotary_kernel is

// On any device, for any heads: a CTA has a few queries.
inline constexpr int kRowsThreads = 128;
inline constexpr int kRowsCtasPerSm = 2;  // with heads of 128 elements
inline constexpr int kRowsQueries = 8;    // rows times set_heads, at most
template <typename N>
AttentionKernel decode_kernel(int head_dim);  // grid: splits, kv_heads * sets, slots
template <typename N>
AttentionKernel prefill_rows_kernel(int head_dim);  // grid: tiles of the longest chunk, kv_heads * sets, chunks

// What the kernels below are given. Where they rotate, q comes as it was before, and each row, the only one of its
// sequence, stores its own key and value.
struct DecodeParams : AttentionParams {
  fma1::ops::RotaryParams rotary{};  // k = null: that op has run

  REPROFUSE_HOST_DEVICE bool rotates() const { return rotary.k != nullptr; }
};

// The same where there is a TMA, for heads of 64 or 128 elements; a null function for others. `cluster`: the CTAs of a
// row and set are one, with at most one key block each, and there is no merge.
template <typename N>
inline constexpr int kStreamCtasPerSm = N::kDigits == 2 ? 2 : 1;
inline constexpr int kMaxCluster = 16;
template <typename N>
AttentionKernel stream_kernel(int head_dim, bool cluster);

// Grid: heads, slots.
template <typename N>
AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small);

// By warpgroups, on compute capability 9.0 alone; a null function for heads that it does not take. Grid: tiles of the
// longest chunk, kv_heads * sets, chunks.
inline constexpr int kPrefillQueries = 128;  // rows of a tile times set_heads, at most
template <typename N>
AttentionKernel prefill_kernel(int head_dim);

}  // namespace reprofuse::cuda::int16::ops
