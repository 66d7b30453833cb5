// Attention on the CPU, and the rotation of queries and keys before it.
// Bits: equal those of kernels/reference/reference.hpp for every input, instruction set, thread count and page size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/cpu/machine.hpp"
#include "kernels/op_calls.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

void rotary(const CpuDevice& device, const kernels::RotaryCall& call);
// Returns the place where a score is not finite, if any: the first by row and then head, as in the reference.
// `workspace`: aligned to 64 bytes, so that threads can share the keys of few rows; null: they share heads alone.
std::optional<kernels::NonFinite> attention(const CpuDevice& device, const kernels::AttentionCall& call,
                                            void* workspace);
// What that must hold. Grows with call.batch.rows and max_keys, so that the largest call's serves all.
std::size_t attention_workspace_bytes(const kernels::AttentionCall& call);

// The same by contracts int16-1 and exact-2, whose pages hold integers of two or three digits, and units.
void rotary_int16(const CpuDevice& device, const kernels::RotaryCall& call);
std::optional<kernels::NonFinite> attention_int16(const CpuDevice& device, const kernels::AttentionCall& call,
                                                  void* workspace);
void rotary_exact2(const CpuDevice& device, const kernels::RotaryCall& call);
std::optional<kernels::NonFinite> attention_exact2(const CpuDevice& device, const kernels::AttentionCall& call,
                                                   void* workspace);
std::size_t attention_integer_workspace_bytes(const kernels::AttentionCall& call);

// Where the key and the value of one position and head lie in the pages.
struct KvPlace {
  // In pages of 16-bit integers pairs of a key's elements are page_size apart, and elements of a value lie beside those
  // of the neighbouring position.
  std::byte* key;    // elements page_size apart
  std::byte* value;  // elements side by side
  // Of integers, the bytes of their units.
  std::uint8_t* key_unit = nullptr;
  std::uint8_t* value_unit = nullptr;
  // Of integers of three digits, the lowest ones; the upper two are the 16-bit integers.
  std::int8_t* key_low = nullptr;
  std::int8_t* value_low = nullptr;
};

inline KvPlace find_place(const kernels::KvPages& kv, const kernels::Batch& batch, std::int64_t sequence,
                          std::int64_t position, std::int64_t kv_head) {
  const std::int64_t page = batch.page_table[sequence * batch.page_table_stride + position / kv.page_size];
  const std::int64_t head = (page * kv.kv_heads + kv_head) * kv.head_dim * kv.page_size;
  const std::int64_t slot = position % kv.page_size;
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(kv.dtype));
  return {.key = static_cast<std::byte*>(kv.keys) + (head + slot) * bytes,
          .value = static_cast<std::byte*>(kv.values) + (head + slot * kv.head_dim) * bytes};
}

template <int kDigits>
inline KvPlace find_digits_place(const kernels::KvPages& kv, const kernels::Batch& batch, std::int64_t sequence,
                                 std::int64_t position, std::int64_t kv_head) {
  const std::int64_t page = batch.page_table[sequence * batch.page_table_stride + position / kv.page_size];
  const std::int64_t head = (page * kv.kv_heads + kv_head) * kv.page_size;
  const std::int64_t slot = position % kv.page_size;
  constexpr std::int64_t kBytes = sizeof(std::int16_t);
  std::byte* const keys = static_cast<std::byte*>(kv.keys) + head * kv.head_dim * kDigits;
  std::byte* const values = static_cast<std::byte*>(kv.values) + head * kv.head_dim * kDigits;
  const std::int64_t key = slot * 2, value = slot / 2 * 2 * kv.head_dim + slot % 2;
  KvPlace found{.key = keys + key * kBytes,
                .value = values + value * kBytes,
                .key_unit = static_cast<std::uint8_t*>(kv.key_units) + head + slot,
                .value_unit = static_cast<std::uint8_t*>(kv.value_units) + head + slot};
  if constexpr (kDigits == 3) {
    const std::int64_t upper_bytes = kBytes * kv.page_size * kv.head_dim;
    found.key_low = reinterpret_cast<std::int8_t*>(keys + upper_bytes) + key;
    found.value_low = reinterpret_cast<std::int8_t*>(values + upper_bytes) + value;
  }
  return found;
}

// Keys in a group: the smallest page, so that a group never leaves its page.
inline constexpr int kKeyGroup = 16;
inline constexpr int kMaxKeyGroups = 8;  // of a block

// A block of keys and values of one head. A group that no line sees repeats the place of one that some line sees.
struct KeyBlock {
  const void* keys[kMaxKeyGroups];               // [head_dim][page_size], from the group's first key on
  const void* values[kMaxKeyGroups];             // [kKeyGroup][head_dim]
  const std::uint8_t* key_units[kMaxKeyGroups];  // [kKeyGroup], in pages that have them
  const std::uint8_t* value_units[kMaxKeyGroups];
  const std::int8_t* key_lows[kMaxKeyGroups];  // likewise, as KvPlace has them
  const std::int8_t* value_lows[kMaxKeyGroups];
  std::int64_t page_size;
  std::int64_t head_dim;
};

// A query head of one row, and the softmax over its keys so far, up to its division.
struct QueryLine {
  const float* query;  // [head_dim]
  float* weighted;     // [head_dim]: sum of probability * value
  float max;
  float sum;           // of probabilities exp(score - max)
  float scale = 1.0F;  // of the weighted values of a block that is kept apart, by contracts that do not apply it yet
};

inline constexpr int kMaxTileLines = 8;

// Some lines that see the same keys of a block.
struct AttentionTile {
  const KeyBlock* block;
  int first;  // keys [first, last) of the block
  int last;
  float scale;
  QueryLine* lines;
  int count;   // 1 to the table's tile_lines
  bool start;  // these are the first keys of every line
  bool apart;  // its blocks are kept apart, to be merged later: each is a start
};

// Returns the lines, as bits, with a score that is not finite.
using AttentionKernel = unsigned (*)(const AttentionTile&);

// The attention of one scheme, for one instruction set.
struct AttentionKernels {
  int key_block;   // keys of a softmax block, at most kMaxKeyGroups groups
  int tile_lines;  // the most in an AttentionTile, at most kMaxTileLines
  AttentionKernel tile;
  void (*start)(QueryLine& first, std::int64_t head_dim);  // a block that was kept apart becomes a total
  void (*merge)(QueryLine& total, const QueryLine& next, std::int64_t head_dim);  // next's keys follow total's
  void (*divide)(const QueryLine& line, std::int64_t head_dim);                   // weighted becomes the result
  KvPlace (*find_place)(const kernels::KvPages&, const kernels::Batch&, std::int64_t, std::int64_t, std::int64_t);
};

const AttentionKernels& attention_bf16_scalar();  // of fma-1, by the format of keys and values
const AttentionKernels& attention_f32_scalar();
const AttentionKernels& attention_int16_scalar();
const AttentionKernels& attention_exact2_scalar();
const AttentionKernels* attention_bf16_simd(Isa isa);  // null: not in this build
const AttentionKernels* attention_f32_simd(Isa isa);
const AttentionKernels* attention_int16_simd(Isa isa);
const AttentionKernels* attention_exact2_simd(Isa isa);

}  // namespace reprofuse::cpu
