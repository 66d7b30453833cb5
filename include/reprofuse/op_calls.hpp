// What each operation of a transformer is given, but for linear layers (linear.hpp). Every pointer is one of the
// context's device; on CUDA a captured graph keeps pointers and sizes and re-reads what they point to.
#pragma once

#include <cstdint>

#include "reprofuse/types.hpp"

namespace reprofuse {

// Consecutive tokens of one sequence that are computed together: one token in decode, many in a prefill.
struct Chunk {
  std::int32_t first_row = 0;       // of the batch
  std::int32_t rows = 0;            // >= 1
  std::int32_t first_position = 0;  // of its first row in its sequence
  std::int32_t sequence = 0;        // row of the page table
};

// The tokens of one forward pass, one per row; rows of a chunk are adjacent and chunks cover all rows in order.
// The sizes are known to the host, which sizes launches by them. A captured graph keeps them and re-reads the arrays.
// On CUDA the arrays are written by copies, never by the kernel ahead: a kernel may read them before its turn.
struct Batch {
  std::int32_t rows = 0;
  std::int32_t chunk_count = 0;
  std::int32_t max_chunk_rows = 0;          // of any chunk
  std::int32_t max_keys = 0;                // bound on position + 1 over all rows
  const std::int32_t* tokens = nullptr;     // [rows]
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int32_t* sequences = nullptr;  // [rows]: row of the page table
  const Chunk* chunks = nullptr;            // [chunk_count]
  // [page_table_rows, page_table_stride]: entry i of a row is the page that holds positions [i * page_size,
  // (i + 1) * page_size) of its sequence.
  const std::int32_t* page_table = nullptr;
  std::int32_t page_table_stride = 0;  // elements between the starts of two rows, >= 1
  std::int32_t page_table_rows = 0;    // sequences are below it; Ops takes at least 1
};

// The keys and values of one layer, Ops::kv_page_bytes() for each page. rotary stores what attention reads; until then
// they may hold anything. In contracts that keep integers elements lie in an order of the backend's own, and each key
// and value of a head has a unit, the power of two that its integers count in: a byte, as NUMERICS.md has it.
struct KvPages {
  // Aligned to 16 bytes. Keys lie transposed, so that neighbouring positions are neighbours in memory.
  void* keys = nullptr;       // [pages, kv_heads, head_dim, page_size]
  void* values = nullptr;     // [pages, kv_heads, page_size, head_dim]
  DType dtype = DType::kF32;  // Ops::kv_dtype(), or as it is here where that has none; BF16 is rounded to nearest even
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t page_size = 0;  // a power of two, at least 16
  std::int32_t pages = 0;      // there are so many: the page table's numbers are below it
  // [pages, kv_heads, page_size], aligned to 16 bytes; not looked at where there are none.
  void* key_units = nullptr;
  void* value_units = nullptr;
};

// x[m] = row tokens[m] of the table, widened.
struct EmbeddingCall {
  WeightView table = {};                 // [vocabulary, hidden]
  const std::int32_t* tokens = nullptr;  // [m], each within the vocabulary
  Matrix x = {};                         // [m, hidden]
};

// x = x + delta, if there is a delta; y = weight * (x / rms(x)). Fails where the mean of squares is not finite.
struct RmsNormCall {
  Matrix x = {};                  // [m, k], updated when there is a delta
  ConstMatrix delta = {};         // [m, k]; data = null: none
  const float* weight = nullptr;  // [k]
  float eps = 0.0F;
  Matrix y = {};  // [m, k]; may be x itself when there is no delta
};

// Normalizes each head of q and k when there are norm weights, rotates both, and stores k and v in the pages of their
// rows.
struct RotaryCall {
  Matrix q = {};                  // [m, heads * head_dim], in place
  ConstMatrix k = {};             // [m, kv_heads * head_dim]
  ConstMatrix v = {};             // [m, kv_heads * head_dim]
  const float* q_norm = nullptr;  // [head_dim], or none; both or neither
  const float* k_norm = nullptr;
  float eps = 0.0F;
  const float* cos = nullptr;  // [positions, head_dim / 2]
  const float* sin = nullptr;
  std::int64_t positions = 0;  // Ops takes at least the batch's max_keys
  Batch batch = {};
  KvPages kv = {};
};

// Causal attention of every row over the keys of its sequence up to its own position. Fails where a score is not
// finite.
struct AttentionCall {
  ConstMatrix q = {};  // [m, heads * head_dim], rotated
  KvPages kv = {};     // holds the keys of these rows, too
  Batch batch = {};
  std::int32_t heads = 0;
  float scale = 0.0F;
  std::int32_t window = 0;  // a row sees the last `window` positions, its own included; 0: all
  Matrix out = {};          // [m, heads * head_dim]
};

// y = silu(gate) * up.
struct SiluGateCall {
  ConstMatrix gate = {};  // [m, k]
  ConstMatrix up = {};    // [m, k]
  Matrix y = {};          // [m, k]; may be gate or up itself
};

// y[i] = x[rows[i]].
struct GatherRowsCall {
  ConstMatrix x = {};
  const std::int32_t* rows = nullptr;  // [y.rows]
  Matrix y = {};
};

}  // namespace reprofuse
