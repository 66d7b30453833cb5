#include "ops/op_checks.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/check.hpp"
#include "kernels/op_calls.hpp"
#include "numerics/float_ops.hpp"
#include "ops/buffer.hpp"

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
  const std::string problem = layout_problem(what, data, rows, cols, stride);
  require_of(op, problem.empty(), "{}", problem);
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

template <typename T>
void check_array(const Op& op, const char* what, const T* values, bool needed = true) {
  require_of(op, !needed || values != nullptr, "the pointer to {} is null", what);
  require_of(op, is_aligned(values, alignof(T)), "the pointer to {} is not aligned to its elements", what);
}

void check_indices(const Op& op, const char* what, const std::int32_t* values, std::int64_t count, std::int64_t end,
                   bool readable) {
  check_array(op, what, values, count > 0);
  if (!readable) return;
  for (std::int64_t i = 0; i < count; ++i)
    require_of(op, values[i] >= 0 && values[i] < end, "{}[{}] = {} is outside 0 to {}", what, i, values[i], end - 1);
}

// What a call reads or writes.
struct Operand {
  const char* what;
  Region region;
};

Operand operand(const char* what, const ConstMatrix& m) {
  return {what, m.data == nullptr || m.rows == 0 ? Region{} : region(m.data, m.rows, m.cols, m.stride)};
}
Operand operand(const char* what, const Matrix& m) {
  return operand(what, read_only(m));
}
template <typename T>
Operand operand(const char* what, const T* values, std::int64_t count) {
  return {what, values == nullptr || count == 0 ? Region{} : region(values, 1, count, 0, sizeof(T))};
}

// Threads write while others read, so an overlap would make the bits depend on their order.
void check_overlap(const Op& op, std::initializer_list<Operand> written, std::initializer_list<Operand> read) {
  for (const Operand* w = written.begin(); w != written.end(); ++w) {
    for (const Operand& r : read) require_of(op, !overlap(w->region, r.region), "{} overlaps {}", w->what, r.what);
    for (const Operand* other = w + 1; other != written.end(); ++other)
      require_of(op, !overlap(w->region, other->region), "{} overlaps {}", w->what, other->what);
  }
}

// An operand that the result may take the place of, elementwise: then it is not looked at.
Operand unless_same(const Matrix& result, const char* what, const ConstMatrix& m) {
  const bool same = result.data == m.data && (result.rows <= 1 || result.stride == m.stride);
  return same ? Operand{what, {}} : operand(what, m);
}

void check_page_shape(const Op& op, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size,
                      std::int64_t pages, const kernels::CacheFormat& cache) {
  require_of(op, kv_heads >= 1 && kv_heads <= INT32_MAX && head_dim >= 2 && head_dim <= INT32_MAX && head_dim % 2 == 0,
             "{} key-value heads of {} elements; heads are even", kv_heads, head_dim);
  require_of(op, kernels::is_page_size(page_size), "a page of {} positions is not a power of two of at least {}",
             page_size, kernels::kMinPageSize);
  require_of(op, pages >= 1, "pages = {}; there is at least one", pages);
  require_of(op, checked_product(pages, kv_heads, head_dim, page_size, cache.element_bytes).has_value(),
             "{} pages of {} positions and {} heads of {} are larger than any memory", pages, page_size, kv_heads,
             head_dim);
}

void check_kv(const Op& op, const KvPages& kv, const kernels::CacheFormat& cache) {
  require_of(op, kv.keys != nullptr && kv.values != nullptr, "a pointer of the KV pages is null");
  require_of(op, kv.dtype == cache.dtype, "KV pages of {}; the context's numerics keep them in {}",
             dtype_name(kv.dtype), cache.name);
  for (const void* data : {kv.keys, kv.values})
    require_of(op, is_aligned(data, 16), "KV pages at {} are not aligned to 16 bytes", data);
  if (cache.unit_bytes > 0) {
    require_of(op, kv.key_units != nullptr && kv.value_units != nullptr,
               "a pointer to units is null; the context's numerics keep them beside pages of {}", cache.name);
    for (const void* data : {kv.key_units, kv.value_units})
      require_of(op, is_aligned(data, 16), "units at {} are not aligned to 16 bytes", data);
  }
  check_page_shape(op, kv.kv_heads, kv.head_dim, kv.page_size, kv.pages, cache);
}

// The bytes of all pages; of none where the format has no units.
Operand pages_of(const char* what, const void* pages, const KvPages& kv, std::int64_t page_bytes) {
  return operand(what, static_cast<const std::byte*>(pages), kv.pages * page_bytes);
}

// Keys, values and their units.
std::array<Operand, 4> stored_in(const KvPages& kv, const kernels::CacheFormat& cache) {
  const std::int64_t elements = cache.page_bytes(kv.kv_heads, kv.head_dim, kv.page_size);
  const std::int64_t units = cache.page_unit_bytes(kv.kv_heads, kv.page_size);
  return {pages_of("the pages of keys", kv.keys, kv, elements),
          pages_of("the pages of values", kv.values, kv, elements),
          pages_of("the units of keys", kv.key_units, kv, units),
          pages_of("the units of values", kv.value_units, kv, units)};
}

std::int64_t page_at(const Batch& batch, const KvPages& kv, std::int32_t sequence, std::int64_t position) {
  return batch.page_table[std::int64_t{sequence} * batch.page_table_stride + position / kv.page_size];
}

// Every page with a position from `first` to `last`.
void check_pages(const Op& op, const Batch& batch, const KvPages& kv, std::int32_t sequence, std::int64_t first,
                 std::int64_t last) {
  for (std::int64_t at = first / kv.page_size; at <= last / kv.page_size; ++at) {
    const std::int64_t page = page_at(batch, kv, sequence, at * kv.page_size);
    require_of(op, page >= 0 && page < kv.pages, "page_table[{}][{}] = {} is outside 0 to {}", sequence, at, page,
               kv.pages - 1);
  }
}

// Chunks cover the rows in order, and every position has a page. Attention reads all positions up to a row's own.
void check_chunks(const Op& op, const Batch& batch, const KvPages& kv, bool reads_all) {
  std::int32_t row = 0;
  for (std::int32_t i = 0; i < batch.chunk_count; ++i) {
    const Chunk& chunk = batch.chunks[i];
    require_of(op,
               chunk.first_row == row && chunk.rows >= 1 && chunk.rows <= batch.max_chunk_rows &&
                   chunk.rows <= batch.rows - row,
               "chunk {} has {} rows from row {} on; the one before ends at row {} of {}", i, chunk.rows,
               chunk.first_row, row, batch.rows);
    require_of(op, chunk.sequence >= 0 && chunk.sequence < batch.page_table_rows,
               "sequence {} of chunk {} is outside 0 to {}", chunk.sequence, i, batch.page_table_rows - 1);
    const std::int64_t first = chunk.first_position, last = first + chunk.rows - 1;
    for (std::int32_t j = 0; j < chunk.rows; ++j, ++row) {
      const std::int64_t position = batch.positions[row];
      require_of(op, position == first + j && batch.sequences[row] == chunk.sequence,
                 "row {} is not position {} of sequence {}, as its chunk says", row, first + j, chunk.sequence);
      require_of(op, position >= 0 && position < batch.max_keys, "position {} of row {} is outside 0 to {}", position,
                 row, batch.max_keys - 1);
    }
    check_pages(op, batch, kv, chunk.sequence, reads_all ? 0 : first, last);
  }
  require_of(op, row == batch.rows, "the chunks cover {} rows of {}", row, batch.rows);
}

// Two rows that store in one place would race.
void check_places(const Op& op, const Batch& batch, const KvPages& kv) {
  std::vector<std::int64_t> places;
  for (std::int32_t row = 0; row < batch.rows; ++row) {
    const std::int64_t position = batch.positions[row];
    places.push_back(page_at(batch, kv, batch.sequences[row], position) * kv.page_size + position % kv.page_size);
  }
  std::sort(places.begin(), places.end());
  const auto twice = std::adjacent_find(places.begin(), places.end());
  if (twice != places.end())
    require_of(op, false, "two rows store in place {} of page {}", *twice % kv.page_size, *twice / kv.page_size);
}

void check_batch(const Op& op, const Batch& batch, const KvPages& kv, std::int64_t rows) {
  require_of(op, batch.rows == rows, "a batch of {} rows for matrices of {}", batch.rows, rows);
  if (rows == 0) return;
  check_array(op, "positions", batch.positions);
  check_array(op, "sequences", batch.sequences);
  check_array(op, "chunks", batch.chunks);
  check_array(op, "page_table", batch.page_table);
  require_of(op,
             batch.chunk_count >= 1 && batch.max_chunk_rows >= 1 && batch.max_keys >= 1 &&
                 batch.page_table_stride >= 1 && batch.page_table_rows >= 1,
             "chunk_count, max_chunk_rows, max_keys, page_table_stride and page_table_rows are {}, {}, {}, {} and {}; "
             "all must be positive",
             batch.chunk_count, batch.max_chunk_rows, batch.max_keys, batch.page_table_stride, batch.page_table_rows);
  require_of(op, batch.max_keys <= std::int64_t{batch.page_table_stride} * kv.page_size,
             "max_keys = {} is more than the {} pages of a sequence hold", batch.max_keys, batch.page_table_stride);
}

// "rotary of 'layer 3': k row 2 column 5 is not finite"
void check_finite(const Op& op, const char* what, const ConstMatrix& m) {
  for (std::int64_t row = 0; row < m.rows; ++row)
    for (std::int64_t column = 0; column < m.cols; ++column)
      if (!is_finite_bits(m.data[row * m.stride + column])) [[unlikely]]
        fail(ErrorCode::kNonFinite, "{} of '{}': {} row {} column {} is not finite", op.op, op.name, what, row, column);
}

}  // namespace

std::string layout_problem(const char* what, const float* data, std::int64_t rows, std::int64_t cols,
                           std::int64_t stride) {
  if (rows > 0 && data == nullptr) return fmt::format("the {} pointer is null", what);
  if (!is_aligned(data, sizeof(float))) return fmt::format("the {} pointer is not aligned to a float", what);
  if (rows > 1 && stride < cols)
    return fmt::format("{} has row stride {}, less than its {} columns", what, stride, cols);
  if (!checked_product(rows, rows > 1 ? stride : cols, sizeof(float)))  // one row has no stride
    return fmt::format("{} of {} rows with row stride {} is larger than any memory", what, rows, stride);
  return {};
}

void check_embedding(const std::string& name, const EmbeddingCall& call, bool readable) {
  const Op op{"embedding", name};
  check_shape(op, "x", call.x, call.x.rows, call.table.k);
  require_of(op, call.table.data != nullptr && call.table.n >= 1 && call.table.stride >= call.table.k,
             "a table of {} x {} with stride {} at {}", call.table.n, call.table.k, call.table.stride, call.table.data);
  require_of(op, is_aligned(call.table.data, dtype_bytes(call.table.dtype)), "the table is not aligned to a {} element",
             dtype_name(call.table.dtype));
  require_of(op, checked_product(call.table.n, call.table.stride, dtype_bytes(call.table.dtype)).has_value(),
             "a table of {} rows with stride {} is larger than any memory", call.table.n, call.table.stride);
  check_indices(op, "tokens", call.tokens, call.x.rows, call.table.n, readable);
  check_overlap(op, {operand("x", call.x)},
                {operand("tokens", call.tokens, call.x.rows),
                 {"the table", region(call.table.data, call.table.n, call.table.k, call.table.stride,
                                      dtype_bytes(call.table.dtype))}});
}

void check_rms_norm(const std::string& name, const RmsNormCall& call) {
  const Op op{"rms_norm", name};
  check_matrix(op, "x", call.x);
  check_shape(op, "y", call.y, call.x.rows, call.x.cols);
  if (call.delta.data != nullptr) {
    check_shape(op, "delta", call.delta, call.x.rows, call.x.cols);
    require_of(op, call.y.data != call.x.data, "y is x, which a delta updates");
    check_overlap(op, {operand("y", call.y), operand("x", call.x)}, {operand("delta", call.delta)});
  }
  check_array(op, "the weight", call.weight);
  require_of(op, call.eps >= 0.0F, "eps = {} is below 0", call.eps);
  check_overlap(op, {operand("y", call.y)},
                {unless_same(call.y, "x", read_only(call.x)), operand("the weight", call.weight, call.x.cols)});
}

void check_rotary(const std::string& name, const RotaryCall& call, const kernels::CacheFormat& cache, bool readable) {
  const Op op{"rotary", name};
  check_kv(op, call.kv, cache);
  check_matrix(op, "q", call.q);
  const std::int64_t kv_size = std::int64_t{call.kv.kv_heads} * call.kv.head_dim;
  check_shape(op, "k", call.k, call.q.rows, kv_size);
  check_shape(op, "v", call.v, call.q.rows, kv_size);
  require_of(op, call.q.cols % kv_size == 0, "q has {} columns, no multiple of the {} of k", call.q.cols, kv_size);
  require_of(op, (call.q_norm == nullptr) == (call.k_norm == nullptr), "one of q_norm and k_norm is null");
  for (const float* values : {call.q_norm, call.k_norm}) check_array(op, "q_norm and k_norm", values, false);
  for (const float* values : {call.cos, call.sin}) check_array(op, "cos and sin", values);
  check_batch(op, call.batch, call.kv, call.q.rows);
  require_of(op, call.batch.max_keys <= call.positions, "cos and sin have {} positions, fewer than max_keys = {}",
             call.positions, call.batch.max_keys);
  const auto angles = checked_product(call.positions, call.kv.head_dim / 2, sizeof(float));
  require_of(op, angles.has_value(), "cos and sin of {} positions are larger than any memory", call.positions);
  const auto count = static_cast<std::int64_t>(*angles / sizeof(float));
  const auto [keys, values, key_units, value_units] = stored_in(call.kv, cache);
  check_overlap(
      op, {operand("q", call.q), keys, values, key_units, value_units},
      {operand("k", call.k), operand("v", call.v), operand("cos", call.cos, count), operand("sin", call.sin, count),
       operand("q_norm", call.q_norm, call.kv.head_dim), operand("k_norm", call.k_norm, call.kv.head_dim)});
  if (!readable || call.q.rows == 0) return;
  check_chunks(op, call.batch, call.kv, false);
  check_places(op, call.batch, call.kv);
  check_finite(op, "k", call.k);
  check_finite(op, "v", call.v);
}

void check_attention(const std::string& name, const AttentionCall& call, const kernels::CacheFormat& cache,
                     bool readable) {
  const Op op{"attention", name};
  check_kv(op, call.kv, cache);
  require_of(op, call.heads >= 1 && call.heads % call.kv.kv_heads == 0, "{} heads for {} key-value heads", call.heads,
             call.kv.kv_heads);
  const std::int64_t size = std::int64_t{call.heads} * call.kv.head_dim;
  check_shape(op, "q", call.q, call.q.rows, size);
  check_shape(op, "out", call.out, call.q.rows, size);
  require_of(op, call.window >= 0, "window = {} is below 0", call.window);
  check_batch(op, call.batch, call.kv, call.q.rows);
  const auto [keys, values, key_units, value_units] = stored_in(call.kv, cache);
  check_overlap(op, {operand("out", call.out)}, {operand("q", call.q), keys, values, key_units, value_units});
  if (readable && call.q.rows > 0) check_chunks(op, call.batch, call.kv, true);
}

void check_silu_gate(const std::string& name, const SiluGateCall& call) {
  const Op op{"silu_gate", name};
  check_matrix(op, "y", call.y);
  check_shape(op, "gate", call.gate, call.y.rows, call.y.cols);
  check_shape(op, "up", call.up, call.y.rows, call.y.cols);
  check_overlap(op, {operand("y", call.y)},
                {unless_same(call.y, "gate", call.gate), unless_same(call.y, "up", call.up)});
}

void check_gather_rows(const std::string& name, const GatherRowsCall& call, bool readable) {
  const Op op{"gather_rows", name};
  check_matrix(op, "x", call.x);
  check_shape(op, "y", call.y, call.y.rows, call.x.cols);
  check_indices(op, "rows", call.rows, call.y.rows, call.x.rows, readable);
  check_overlap(op, {operand("y", call.y)}, {operand("x", call.x), operand("rows", call.rows, call.y.rows)});
}

void check_kv_page(const std::string& name, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t page_size,
                   const kernels::CacheFormat& cache) {
  check_page_shape({"kv_page_bytes", name}, kv_heads, head_dim, page_size, 1, cache);
}

void check_attention_sizes(const std::string& name, const AttentionSizes& sizes) {
  const Op op{"attention", name};
  for (const std::int64_t size : {sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.rows, sizes.chunks, sizes.keys})
    require_of(op, size >= 1 && size <= INT32_MAX, "a size of {} is outside 1 to {}", size, INT32_MAX);
  require_of(op, sizes.heads % sizes.kv_heads == 0, "{} heads for {} key-value heads", sizes.heads, sizes.kv_heads);
  // The most that a kernel keeps: for every row and head, partial results of blocks of keys, an element each and more.
  const std::int64_t slots = std::max(sizes.rows, sizes.chunks);
  require_of(op, checked_product(sizes.heads, sizes.head_dim + 4, slots, sizes.keys, sizeof(float)).has_value(),
             "a workspace for {} rows of {} heads of {} over {} keys is larger than any memory", slots, sizes.heads,
             sizes.head_dim, sizes.keys);
}

void check_workspace_bytes(const std::string& name, WorkspaceView workspace, std::size_t needed) {
  require_of({"attention", name}, workspace.bytes >= needed && (needed == 0 || workspace.data != nullptr),
             "a workspace of {} bytes; it needs {}", workspace.bytes, needed);
}

}  // namespace reprofuse
