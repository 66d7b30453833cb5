// What the attention kernels are given. Single rows go to the decode kernel, which cuts the keys of a row over CTAs;
// chunks of many rows to the prefill kernel, which cuts the rows. Each skips what belongs to the other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/math.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/op_calls.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda {

struct F32Kv;
struct Bf16Kv;

// The pages of one layer as a kernel is told of them.
struct KvView {
  void* keys;               // [pages, kv_heads, head_dim, page_size]; integers: see integer/params.hpp
  void* values;             // [pages, kv_heads, page_size, head_dim]
  std::uint8_t* key_units;  // [pages, kv_heads, page_size], of integers
  std::uint8_t* value_units;
  const std::int32_t* page_table;
  int page_table_stride;
  int kv_heads;
  int head_dim;
  int page_shift;  // page_size = 1 << page_shift

  REPROFUSE_HOST_DEVICE int page_size() const { return 1 << page_shift; }
  // Elements before a page's part of one head, in keys and in values alike.
  REPROFUSE_HOST_DEVICE std::int64_t head_offset(int page, int kv_head) const {
    return (static_cast<std::int64_t>(page) * kv_heads + kv_head) * head_dim << page_shift;
  }
  REPROFUSE_HOST_DEVICE int page_of(int sequence, int position) const {
    return page_table[static_cast<std::int64_t>(sequence) * page_table_stride + (position >> page_shift)];
  }
};

}  // namespace reprofuse::cuda

namespace reprofuse::cuda::ops {

using reprofuse::fma1::kKeyBlock;

struct AttentionParams {
  const float* q;  // [rows, heads * head_dim]
  float* out;      // likewise
  std::int64_t q_stride, out_stride;
  const kernels::Chunk* chunks;
  const std::int32_t* positions;  // [rows]
  const std::int32_t* sequences;
  KvView kv;
  int heads;
  int group;      // query heads of one key-value head
  int sets;       // a group is cut into so many sets of heads, one per CTA
  int set_heads;  // at most kMaxSetHeads
  float scale;
  int window;
  bool q_aligned;  // rows and heads of q start on 16 bytes
  unsigned op;
  Record* record;
  int prefill_from;  // the rows of a chunk from which on it belongs to the prefill kernel
  // Decode.
  bool item_is_row;     // a decode item is a row; otherwise a chunk, decoded if it has one row
  int splits;           // CTAs that share a row's key blocks in turn; 1: the CTA folds them itself
  int key_blocks;       // bound on those of one row
  bool one_buffer;      // keys and values take turns in shared memory, for a device with little of it
  bool prefetch;        // into the L2, before the kernels ahead have finished
  int stages;           // tiles of attention_decode_stream in shared memory
  float* weighted;      // [decode_items, heads, key_blocks, head_dim]
  float2* max_and_sum;  // [decode_items, heads, key_blocks]
  float* scales;        // likewise: what the weighted sums count in, of integers
};

inline constexpr int kMaxSetHeads = 8;
inline constexpr int kMaxHeadDim = 256;
inline constexpr int kHeadDimStep = 16;

struct AttentionKernel {
  const void* function;
  int threads;
  int shared_bytes;
  int ctas_per_sm = 0;  // that it was made for, where a schedule has to know
};

// Kernels by the format of keys and values, F32Kv or Bf16Kv: attention_f32.cu and attention_bf16.cu hold them.
inline constexpr int kDecodeThreads = 128;
inline constexpr int kDecodeCtasPerSm = 3;  // with heads of 128 elements in FP32
// Grid: splits, kv_heads * sets, decode items.
template <typename Kv>
const void* decode_kernel(int head_dim, int set_heads);
// Keys and values, the queries, the probabilities and the maxima, as DecodeShared lays them out.
constexpr int decode_shared_bytes(int head_dim, int set_heads, int element_bytes, bool one_buffer) {
  const int heads = set_heads <= 2 ? 2 : set_heads <= 4 ? 4 : kMaxSetHeads;
  return (one_buffer ? 1 : 2) * kKeyBlock * head_dim * element_bytes + heads * (head_dim + kKeyBlock + 1) * 4;
}

// The same by the TMA, for pages of one key block and heads of 64 or 128 elements.
inline constexpr int kMinTileStages = 2, kMaxTileStages = 6;
inline constexpr int kStreamCtasPerSm = 2;
template <typename Kv>
AttentionKernel stream_kernel(int head_dim, int set_heads, int stages);

// Decode on devices with clusters, without partials and merge. Grid: as above, where `splits` CTAs are a cluster.
inline constexpr int kMaxClusterCtas = 16;
inline constexpr int kClusterCtasPerSm = 3;  // with heads of 128 elements in FP32
template <typename Kv>
AttentionKernel cluster_kernel(int head_dim, int set_heads, int ctas);

inline constexpr int kMergeElements = 32;  // of a head, that a warp has
inline constexpr int kMergeRun = 32;       // partials that are fetched together
// Grid: heads, decode items. `small`: for a device with little shared memory.
AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small);

struct PrefillKernel : AttentionKernel {
  int queries;  // of a CTA, each a head of a row
};
// Grid: kv_heads * sets, CTAs that the longest chunk takes, chunks.
template <typename Kv>
PrefillKernel prefill_kernel(int head_dim);

// Rotary embedding, which stores keys and values.
struct RotaryParams {
  float* q;        // [rows, heads * head_dim]
  const float* k;  // [rows, kv_heads * head_dim]
  const float* v;
  std::int64_t q_stride, k_stride, v_stride;
  const float* q_norm;  // [head_dim] or null
  const float* k_norm;
  const float* cos;  // [positions, head_dim / 2]
  const float* sin;
  const std::int32_t* positions;
  const std::int32_t* sequences;
  float eps;
  int heads;
  KvView kv;
};

inline constexpr int kRotaryWarps = 4;  // of a CTA; each owns one head of one row

const void* rotary_kernel(bool bf16_kv);  // grid: rows, and heads + kv_heads over kRotaryWarps

}  // namespace reprofuse::cuda::ops
