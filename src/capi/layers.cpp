// Linear layers and the other operations.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "capi/boundary.hpp"

using reprofuse::require;
using namespace reprofuse::capi;

struct reprofuse_linear {
  reprofuse::LinearLayer layer;
  std::string implementation;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output
};

struct reprofuse_ops {
  reprofuse::Ops ops;
};

static_assert(sizeof(reprofuse_chunk) == sizeof(reprofuse::Chunk) &&
              offsetof(reprofuse_chunk, sequence) == offsetof(reprofuse::Chunk, sequence));
namespace {

reprofuse::DType dtype(std::int32_t value) {
  require(value == REPROFUSE_F32 || value == REPROFUSE_BF16 || value == REPROFUSE_F16, "dtype {} does not exist",
          value);
  return static_cast<reprofuse::DType>(value);
}

reprofuse::WeightView view(const reprofuse_weight& weight) {
  return {weight.data, dtype(weight.dtype), weight.n, weight.k, weight.stride};
}

reprofuse::Matrix written(const reprofuse_matrix* matrix, const char* what) {
  const reprofuse_matrix& m = unwrap(matrix, what);
  return {m.data, m.rows, m.cols, m.stride};
}

reprofuse::ConstMatrix read(const reprofuse_matrix* matrix, const char* what) {
  const reprofuse_matrix& m = unwrap(matrix, what);
  return {m.data, m.rows, m.cols, m.stride};
}

reprofuse::Batch batch_of(const reprofuse_batch* batch) {
  const reprofuse_batch b = read_struct(batch, "batch");
  return {.rows = b.rows,
          .chunk_count = b.chunk_count,
          .max_chunk_rows = b.max_chunk_rows,
          .max_keys = b.max_keys,
          .positions = b.positions,
          .sequences = b.sequences,
          .chunks = reinterpret_cast<const reprofuse::Chunk*>(b.chunks),
          .page_table = b.page_table,
          .page_table_stride = b.page_table_stride,
          .page_table_rows = b.page_table_rows};
}

// NO_DTYPE is right where the numerics have none.
reprofuse::KvPages pages_of(const reprofuse::Ops& ops, const reprofuse_kv_pages* pages) {
  const reprofuse_kv_pages p = read_struct(pages, "struct of KV pages");
  const bool in_integers = p.dtype == REPROFUSE_NO_DTYPE && !ops.kv_dtype();
  return {.keys = p.keys,
          .values = p.values,
          .dtype = in_integers ? reprofuse::DType::kF32 : dtype(p.dtype),
          .kv_heads = p.kv_heads,
          .head_dim = p.head_dim,
          .page_size = p.page_size,
          .pages = p.pages,
          .key_units = p.key_units,
          .value_units = p.value_units};
}

reprofuse::RotaryConfig rotary_of(const reprofuse_rotary& rotary) {
  const reprofuse_rotary r = read_struct(&rotary, "rotary struct");
  require(r.kind >= REPROFUSE_ROTARY_PLAIN && r.kind <= REPROFUSE_ROTARY_YARN,
          "kind = {} is none of the REPROFUSE_ROTARY_ values", r.kind);
  const auto given = [](double value) { return value == 0 ? std::nullopt : std::optional(value); };
  return {.kind = static_cast<reprofuse::RotaryKind>(r.kind),
          .theta = r.theta,
          .factor = r.factor,
          .original_max_positions = r.original_max_positions,
          .low_freq_factor = r.low_freq_factor,
          .high_freq_factor = r.high_freq_factor,
          .beta_fast = r.beta_fast,
          .beta_slow = r.beta_slow,
          .truncate = r.truncate != 0,
          .attention_factor = given(r.attention_factor),
          .mscale = given(r.mscale),
          .mscale_all_dim = given(r.mscale_all_dim)};
}

const reprofuse::Ops& unwrap_ops(const reprofuse_ops* ops) {
  return unwrap(ops, "handle of operations").ops;
}

}  // namespace

namespace reprofuse::capi {

void give_table(const RotaryTable& table, float* cos, float* sin) {
  require(cos != nullptr && sin != nullptr, "a pointer that receives cos or sin is null");
  std::copy(table.cos.begin(), table.cos.end(), cos);
  std::copy(table.sin.begin(), table.sin.end(), sin);
}

}  // namespace reprofuse::capi

reprofuse_status reprofuse_linear_options_init(reprofuse_linear_options* options, size_t size) {
  return guarded([&] { init_struct(options, size, "struct of options of a linear layer", [](auto&) {}); });
}

reprofuse_status reprofuse_linear_create(const reprofuse_context* context, const reprofuse_weight* weights,
                                         size_t count, const reprofuse_linear_options* options,
                                         reprofuse_linear** linear) {
  return create(linear, "linear layer", [&] {
    const auto given =
        options == nullptr ? reprofuse_linear_options{} : read_struct(options, "struct of options of a linear layer");
    require(given.weight_use == REPROFUSE_WEIGHTS_READ || given.weight_use == REPROFUSE_WEIGHTS_TAKE,
            "weight_use = {} is none of the REPROFUSE_WEIGHTS_ values", given.weight_use);
    std::vector<reprofuse::WeightView> views;
    std::vector<std::int64_t> n;
    for (const reprofuse_weight& weight : list(weights, count, "weights")) {
      views.push_back(view(weight));
      n.push_back(weight.n);
    }
    reprofuse::LinearLayer layer(unwrap(context, "context").context, views, std::string(text_or(given.name, "linear")),
                                 static_cast<reprofuse::WeightUse>(given.weight_use));
    std::string implementation = layer.implementation();
    return new reprofuse_linear{std::move(layer), std::move(implementation), views[0].k, std::move(n)};
  });
}

void reprofuse_linear_destroy(reprofuse_linear* linear) {
  delete linear;
}

const char* reprofuse_linear_implementation(const reprofuse_linear* linear) {
  return linear == nullptr ? nullptr : linear->implementation.c_str();
}

reprofuse_status reprofuse_linear_workspace_bytes(const reprofuse_linear* linear, int64_t max_m, size_t* bytes) {
  return guarded(
      [&] { receiver(bytes, "number of bytes") = unwrap(linear, "linear layer").layer.workspace_bytes(max_m); });
}

reprofuse_status reprofuse_linear_run(const reprofuse_linear* linear, const float* x, int64_t m, int64_t x_stride,
                                      const reprofuse_output* outputs, size_t count, void* workspace,
                                      size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const reprofuse_linear& self = unwrap(linear, "linear layer");
    require(count == self.n.size(), "{} outputs for {} weights", count, self.n.size());
    std::vector<reprofuse::LinearOutput> made;
    for (const reprofuse_output& output : list(outputs, count, "outputs"))
      made.push_back({.y = {output.y, m, self.n[made.size()], output.y_stride}, .bias = output.bias});
    self.layer.run({x, m, self.k, x_stride}, made, {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_create(const reprofuse_context* context, const char* name, reprofuse_ops** ops) {
  return create(ops, "handle of operations", [&] {
    return new reprofuse_ops{reprofuse::Ops(unwrap(context, "context").context, std::string(text_or(name, "ops")))};
  });
}

void reprofuse_ops_destroy(reprofuse_ops* ops) {
  delete ops;
}

reprofuse_status reprofuse_ops_embedding(const reprofuse_ops* ops, const reprofuse_weight* table, const int32_t* tokens,
                                         const reprofuse_matrix* x, void* workspace, size_t workspace_bytes,
                                         void* stream) {
  return guarded([&] {
    unwrap_ops(ops).embedding({.table = view(unwrap(table, "table")), .tokens = tokens, .x = written(x, "x")},
                              {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_rms_norm(const reprofuse_ops* ops, const reprofuse_matrix* x,
                                        const reprofuse_matrix* delta, const float* weight, float eps,
                                        const reprofuse_matrix* y, void* workspace, size_t workspace_bytes,
                                        void* stream) {
  return guarded([&] {
    unwrap_ops(ops).rms_norm({.x = written(x, "x"),
                              .delta = delta == nullptr ? reprofuse::ConstMatrix{} : read(delta, "delta"),
                              .weight = weight,
                              .eps = eps,
                              .y = written(y, "y")},
                             {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_silu_gate(const reprofuse_ops* ops, const reprofuse_matrix* gate,
                                         const reprofuse_matrix* up, const reprofuse_matrix* y, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return guarded([&] {
    unwrap_ops(ops).silu_gate({.gate = read(gate, "gate"), .up = read(up, "up"), .y = written(y, "y")},
                              {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_gather_rows(const reprofuse_ops* ops, const reprofuse_matrix* x, const int32_t* rows,
                                           const reprofuse_matrix* y, void* workspace, size_t workspace_bytes,
                                           void* stream) {
  return guarded([&] {
    unwrap_ops(ops).gather_rows({.x = read(x, "x"), .rows = rows, .y = written(y, "y")}, {workspace, workspace_bytes},
                                stream);
  });
}

reprofuse_status reprofuse_batch_init(reprofuse_batch* batch, size_t size) {
  return guarded([&] { init_struct(batch, size, "batch", [](auto&) {}); });
}

reprofuse_status reprofuse_kv_pages_init(reprofuse_kv_pages* pages, size_t size) {
  return guarded([&] { init_struct(pages, size, "struct of KV pages", [](auto&) {}); });
}

reprofuse_status reprofuse_ops_kv_dtype(const reprofuse_ops* ops, int32_t* dtype) {
  return guarded([&] {
    const auto kept = unwrap_ops(ops).kv_dtype();
    receiver(dtype, "dtype") = kept ? static_cast<int32_t>(*kept) : REPROFUSE_NO_DTYPE;
  });
}

reprofuse_status reprofuse_ops_kv_page_bytes(const reprofuse_ops* ops, int64_t kv_heads, int64_t head_dim,
                                             int64_t page_size, size_t* bytes, size_t* unit_bytes) {
  return guarded([&] {
    const reprofuse::KvPageBytes page = unwrap_ops(ops).kv_page_bytes(kv_heads, head_dim, page_size);
    size_t& of_units = receiver(unit_bytes, "number of bytes of units");
    receiver(bytes, "number of bytes") = page.elements;
    of_units = page.units;
  });
}

reprofuse_status reprofuse_ops_rotary(const reprofuse_ops* ops, const reprofuse_matrix* q, const reprofuse_matrix* k,
                                      const reprofuse_matrix* v, const float* q_norm, const float* k_norm, float eps,
                                      const float* cos, const float* sin, int64_t positions,
                                      const reprofuse_batch* batch, const reprofuse_kv_pages* pages, void* workspace,
                                      size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const reprofuse::Ops& self = unwrap_ops(ops);
    self.rotary({.q = written(q, "q"),
                 .k = read(k, "k"),
                 .v = read(v, "v"),
                 .q_norm = q_norm,
                 .k_norm = k_norm,
                 .eps = eps,
                 .cos = cos,
                 .sin = sin,
                 .positions = positions,
                 .batch = batch_of(batch),
                 .kv = pages_of(self, pages)},
                {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_attention(const reprofuse_ops* ops, const reprofuse_matrix* q, int32_t heads,
                                         float scale, int32_t window, const reprofuse_batch* batch,
                                         const reprofuse_kv_pages* pages, const reprofuse_matrix* out, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return guarded([&] {
    const reprofuse::Ops& self = unwrap_ops(ops);
    self.attention({.q = read(q, "q"),
                    .kv = pages_of(self, pages),
                    .batch = batch_of(batch),
                    .heads = heads,
                    .scale = scale,
                    .window = window,
                    .out = written(out, "out")},
                   {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_attention_workspace_bytes(const reprofuse_ops* ops, int64_t heads, int64_t kv_heads,
                                                         int64_t head_dim, int64_t rows, int64_t chunks, int64_t keys,
                                                         size_t* bytes) {
  return guarded([&] {
    receiver(bytes, "number of bytes") =
        unwrap_ops(ops).attention_workspace_bytes({heads, kv_heads, head_dim, rows, chunks, keys});
  });
}

reprofuse_status reprofuse_rotary_init(reprofuse_rotary* rotary, size_t size) {
  return guarded([&] {
    init_struct(rotary, size, "rotary struct", [defaults = reprofuse::RotaryConfig{}](auto& made) {
      made.truncate = defaults.truncate ? 1 : 0;
      made.theta = defaults.theta;
      made.factor = defaults.factor;
      made.low_freq_factor = defaults.low_freq_factor;
      made.high_freq_factor = defaults.high_freq_factor;
      made.beta_fast = defaults.beta_fast;
      made.beta_slow = defaults.beta_slow;
    });
  });
}

reprofuse_status reprofuse_rotary_table(const reprofuse_rotary* rotary, int64_t head_dim, int64_t positions, float* cos,
                                        float* sin) {
  return guarded([&] {
    give_table(reprofuse::rotary_table(rotary == nullptr ? reprofuse::RotaryConfig{} : rotary_of(*rotary), head_dim,
                                       positions),
               cos, sin);
  });
}
