#include "api/op_checks.hpp"

#include <bit>
#include <cstdint>
#include <span>

#include "base/check.hpp"

namespace reprofuse {
namespace {

// An operation and its place: "silu_gate of 'layer 3'".
struct Op {
  const char* op;
  const std::string& name;
};

template <typename... Args>
void require_of(const Op& op, bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(ErrorCode::kInvalidArgument, "{} of '{}': {}", op.op, op.name,
         fmt::format(format, std::forward<Args>(args)...));
}

void check_matrix(const Op& op, const char* what, const float* data, std::int64_t rows, std::int64_t cols,
                  std::int64_t stride) {
  require_of(op, rows >= 0 && rows <= INT32_MAX && cols >= 1 && cols <= INT32_MAX,
             "{} is {} x {}, outside the sizes that fit", what, rows, cols);
  require_of(op, rows == 0 || data != nullptr, "the {} pointer is null", what);
  require_of(op, rows <= 1 || stride >= cols, "{} has row stride {}, less than its {} columns", what, stride, cols);
  require_of(op, checked_product(rows, rows > 1 ? stride : cols, sizeof(float)).has_value(),
             "{} of {} rows with row stride {} is larger than any memory", what, rows, stride);
}

template <typename M>
void check_matrix(const Op& op, const char* what, const M& matrix) {
  check_matrix(op, what, matrix.data, matrix.rows, matrix.cols, matrix.stride);
}

template <typename M>
void check_shape(const Op& op, const char* what, const M& matrix, std::int64_t rows, std::int64_t cols) {
  check_matrix(op, what, matrix);
  require_of(op, matrix.rows == rows && matrix.cols == cols, "{} is {} x {}, it must be {} x {}", what, matrix.rows,
             matrix.cols, rows, cols);
}

void check_indices(const Op& op, const char* what, const std::int32_t* values, std::int64_t count, std::int64_t end,
                   bool readable) {
  require_of(op, count == 0 || values != nullptr, "the pointer to {} is null", what);
  if (!readable) return;
  for (std::int64_t i = 0; i < count; ++i)
    require_of(op, values[i] >= 0 && values[i] < end, "{}[{}] = {} is outside 0 to {}", what, i, values[i], end - 1);
}

void check_kv(const Op& op, const KvPages& kv, DType dtype) {
  require_of(op, kv.keys != nullptr && kv.values != nullptr, "a pointer of the KV pages is null");
  for (const void* data : {kv.keys, kv.values})
    require_of(op, reinterpret_cast<std::uintptr_t>(data) % 16 == 0, "KV pages at {} are not aligned to 16 bytes",
               data);
  require_of(op, kv.dtype == dtype, "KV pages of {}; the context's numerics keep them in {}", dtype_name(kv.dtype),
             dtype_name(dtype));
  require_of(op, kv.kv_heads >= 1 && kv.head_dim >= 2 && kv.head_dim % 2 == 0,
             "{} key-value heads of {} elements; heads are even", kv.kv_heads, kv.head_dim);
  require_of(op, kv.page_size >= 16 && std::has_single_bit(static_cast<std::uint32_t>(kv.page_size)),
             "a page of {} positions is not a power of two of at least 16", kv.page_size);
}

// Chunks cover the rows in order, and every position has a page.
void check_chunks(const Op& op, const Batch& batch, const KvPages& kv) {
  std::int32_t row = 0;
  for (std::int32_t i = 0; i < batch.chunk_count; ++i) {
    const Chunk& chunk = batch.chunks[i];
    require_of(op,
               chunk.first_row == row && chunk.rows >= 1 && chunk.rows <= batch.max_chunk_rows &&
                   chunk.rows <= batch.rows - row,
               "chunk {} has {} rows from row {} on; the one before ends at row {} of {}", i, chunk.rows,
               chunk.first_row, row, batch.rows);
    for (std::int32_t j = 0; j < chunk.rows; ++j, ++row) {
      const std::int32_t position = batch.positions[row];
      require_of(op, position == chunk.first_position + j && batch.sequences[row] == chunk.sequence,
                 "row {} is not position {} of sequence {}, as its chunk says", row, chunk.first_position + j,
                 chunk.sequence);
      require_of(op, position >= 0 && position < batch.max_keys, "position {} of row {} is outside 0 to {}", position,
                 row, batch.max_keys - 1);
      require_of(op, chunk.sequence >= 0 && position / kv.page_size < batch.page_table_stride,
                 "position {} of row {} lies beyond the {} pages of a sequence", position, row,
                 batch.page_table_stride);
    }
  }
  require_of(op, row == batch.rows, "the chunks cover {} rows of {}", row, batch.rows);
}

void check_batch(const Op& op, const Batch& batch, const KvPages& kv, std::int64_t rows, bool readable) {
  require_of(op, batch.rows == rows, "a batch of {} rows for matrices of {}", batch.rows, rows);
  if (rows == 0) return;
  require_of(op,
             batch.positions != nullptr && batch.sequences != nullptr && batch.chunks != nullptr &&
                 batch.page_table != nullptr,
             "a pointer of the batch is null");
  require_of(op,
             batch.chunk_count >= 1 && batch.max_chunk_rows >= 1 && batch.max_keys >= 1 && batch.page_table_stride >= 1,
             "chunk_count, max_chunk_rows, max_keys and page_table_stride are {}, {}, {} and {}; all must be positive",
             batch.chunk_count, batch.max_chunk_rows, batch.max_keys, batch.page_table_stride);
  if (readable) check_chunks(op, batch, kv);
}

}  // namespace

void check_embedding(const std::string& name, const EmbeddingCall& call, bool readable) {
  const Op op{"embedding", name};
  check_shape(op, "x", call.x, call.x.rows, call.table.k);
  require_of(op, call.table.data != nullptr && call.table.n >= 1 && call.table.stride >= call.table.k,
             "a table of {} x {} with stride {} at {}", call.table.n, call.table.k, call.table.stride, call.table.data);
  check_indices(op, "tokens", call.tokens, call.x.rows, call.table.n, readable);
}

void check_rms_norm(const std::string& name, const RmsNormCall& call) {
  const Op op{"rms_norm", name};
  check_matrix(op, "x", call.x);
  check_shape(op, "y", call.y, call.x.rows, call.x.cols);
  if (call.delta.data != nullptr) {
    check_shape(op, "delta", call.delta, call.x.rows, call.x.cols);
    require_of(op, call.y.data != call.x.data, "y is x, which a delta updates");
  }
  require_of(op, call.weight != nullptr, "the weight pointer is null");
  require_of(op, call.eps >= 0.0F, "eps = {} is below 0", call.eps);
}

void check_rotary(const std::string& name, const RotaryCall& call, DType kv_dtype, bool readable) {
  const Op op{"rotary", name};
  check_kv(op, call.kv, kv_dtype);
  check_matrix(op, "q", call.q);
  const std::int64_t kv_size = std::int64_t{call.kv.kv_heads} * call.kv.head_dim;
  check_shape(op, "k", call.k, call.q.rows, kv_size);
  check_shape(op, "v", call.v, call.q.rows, kv_size);
  require_of(op, call.q.cols % kv_size == 0, "q has {} columns, no multiple of the {} of k", call.q.cols, kv_size);
  require_of(op, (call.q_norm == nullptr) == (call.k_norm == nullptr), "one of q_norm and k_norm is null");
  require_of(op, call.cos != nullptr && call.sin != nullptr, "a pointer of cos and sin is null");
  check_batch(op, call.batch, call.kv, call.q.rows, readable);
}

void check_attention(const std::string& name, const AttentionCall& call, DType kv_dtype, bool readable) {
  const Op op{"attention", name};
  check_kv(op, call.kv, kv_dtype);
  require_of(op, call.heads >= 1 && call.heads % call.kv.kv_heads == 0, "{} heads for {} key-value heads", call.heads,
             call.kv.kv_heads);
  const std::int64_t size = std::int64_t{call.heads} * call.kv.head_dim;
  check_shape(op, "q", call.q, call.q.rows, size);
  check_shape(op, "out", call.out, call.q.rows, size);
  require_of(op, call.window >= 0, "window = {} is below 0", call.window);
  check_batch(op, call.batch, call.kv, call.q.rows, readable);
}

void check_silu_gate(const std::string& name, const SiluGateCall& call) {
  const Op op{"silu_gate", name};
  check_matrix(op, "y", call.y);
  check_shape(op, "gate", call.gate, call.y.rows, call.y.cols);
  check_shape(op, "up", call.up, call.y.rows, call.y.cols);
}

void check_gather_rows(const std::string& name, const GatherRowsCall& call, bool readable) {
  const Op op{"gather_rows", name};
  check_matrix(op, "x", call.x);
  check_shape(op, "y", call.y, call.y.rows, call.x.cols);
  check_indices(op, "rows", call.rows, call.y.rows, call.x.rows, readable);
}

void check_attention_sizes(const std::string& name, const AttentionSizes& sizes) {
  const Op op{"attention", name};
  for (const std::int64_t size : {sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.rows, sizes.chunks, sizes.keys})
    require_of(op, size >= 1 && size <= INT32_MAX, "a size of {} is outside 1 to {}", size, INT32_MAX);
  require_of(op, sizes.heads % sizes.kv_heads == 0, "{} heads for {} key-value heads", sizes.heads, sizes.kv_heads);
}

void check_workspace_bytes(const std::string& name, WorkspaceView workspace, std::size_t needed) {
  require_of({"attention", name}, workspace.bytes >= needed && (needed == 0 || workspace.data != nullptr),
             "a workspace of {} bytes; it needs {}", workspace.bytes, needed);
}

}  // namespace reprofuse
