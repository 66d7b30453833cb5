// Linear layers, the other operations and the sampler.
#include <algorithm>
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

struct reprofuse_sampler {
  reprofuse::Sampler sampler;
  std::int64_t vocabulary;
};

static_assert(sizeof(reprofuse_chunk) == sizeof(reprofuse::Chunk) &&
              offsetof(reprofuse_chunk, sequence) == offsetof(reprofuse::Chunk, sequence));
static_assert(std::size(reprofuse_sample{}.top) == reprofuse::kMaxLogprobs);

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

reprofuse::KvPages pages_of(const reprofuse_kv_pages* pages) {
  const reprofuse_kv_pages p = read_struct(pages, "struct of KV pages");
  return {.keys = p.keys,
          .values = p.values,
          .dtype = dtype(p.dtype),
          .kv_heads = p.kv_heads,
          .head_dim = p.head_dim,
          .page_size = p.page_size,
          .pages = p.pages};
}

const reprofuse::Ops& unwrap_ops(const reprofuse_ops* ops) {
  return unwrap(ops, "handle of operations").ops;
}

}  // namespace

namespace reprofuse::capi {

SamplingParams sampling(const reprofuse_sampling& s) {
  return {s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.seed};
}

reprofuse_sampling sampling(const SamplingParams& p) {
  return {p.temperature, p.top_k, p.top_p, p.min_p, p.repetition_penalty, p.seed};
}

}  // namespace reprofuse::capi

reprofuse_status reprofuse_linear_create(const reprofuse_context* context, const reprofuse_weight* weights,
                                         size_t count, const char* name, reprofuse_linear** linear) {
  return create(linear, "linear layer", [&] {
    std::vector<reprofuse::WeightView> views;
    std::vector<std::int64_t> n;
    for (const reprofuse_weight& weight : list(weights, count, "weights")) {
      views.push_back(view(weight));
      n.push_back(weight.n);
    }
    reprofuse::LinearLayer layer(unwrap(context, "context").context, views, std::string(text_or(name, "linear")));
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
  return guarded([&] {
    require(bytes != nullptr, "the pointer that receives the number of bytes is null");
    *bytes = unwrap(linear, "linear layer").layer.workspace_bytes(max_m);
  });
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
    require(dtype != nullptr, "the pointer that receives the dtype is null");
    *dtype = static_cast<int32_t>(unwrap_ops(ops).kv_dtype());
  });
}

reprofuse_status reprofuse_ops_rotary(const reprofuse_ops* ops, const reprofuse_matrix* q, const reprofuse_matrix* k,
                                      const reprofuse_matrix* v, const float* q_norm, const float* k_norm, float eps,
                                      const float* cos, const float* sin, int64_t positions,
                                      const reprofuse_batch* batch, const reprofuse_kv_pages* pages, void* workspace,
                                      size_t workspace_bytes, void* stream) {
  return guarded([&] {
    unwrap_ops(ops).rotary({.q = written(q, "q"),
                            .k = read(k, "k"),
                            .v = read(v, "v"),
                            .q_norm = q_norm,
                            .k_norm = k_norm,
                            .eps = eps,
                            .cos = cos,
                            .sin = sin,
                            .positions = positions,
                            .batch = batch_of(batch),
                            .kv = pages_of(pages)},
                           {workspace, workspace_bytes}, stream);
  });
}

reprofuse_status reprofuse_ops_attention(const reprofuse_ops* ops, const reprofuse_matrix* q, int32_t heads,
                                         float scale, int32_t window, const reprofuse_batch* batch,
                                         const reprofuse_kv_pages* pages, const reprofuse_matrix* out, void* workspace,
                                         size_t workspace_bytes, void* stream) {
  return guarded([&] {
    unwrap_ops(ops).attention({.q = read(q, "q"),
                               .kv = pages_of(pages),
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
    require(bytes != nullptr, "the pointer that receives the number of bytes is null");
    *bytes = unwrap_ops(ops).attention_workspace_bytes({heads, kv_heads, head_dim, rows, chunks, keys});
  });
}

reprofuse_status reprofuse_rotary_table(double theta, int64_t head_dim, int64_t positions, float* cos, float* sin) {
  return guarded([&] {
    require(cos != nullptr && sin != nullptr, "a pointer that receives cos or sin is null");
    const auto table = reprofuse::rotary_table({.theta = theta}, head_dim, positions);
    std::copy(table.cos.begin(), table.cos.end(), cos);
    std::copy(table.sin.begin(), table.sin.end(), sin);
  });
}

reprofuse_status reprofuse_sample_init(reprofuse_sample* sample, size_t size) {
  return guarded([&] {
    init_struct(sample, size, "sample", [](auto& made) {
      made.sampling = sampling(reprofuse::SamplingParams{});
      made.given = -1;
      made.logprobs = -1;
      made.token = -1;
    });
  });
}

reprofuse_status reprofuse_sampler_create(const reprofuse_context* context, int64_t vocabulary, int64_t max_rows,
                                          reprofuse_sampler** sampler) {
  return create(sampler, "sampler", [&] {
    return new reprofuse_sampler{{unwrap(context, "context").context, vocabulary, max_rows}, vocabulary};
  });
}

void reprofuse_sampler_destroy(reprofuse_sampler* sampler) {
  delete sampler;
}

reprofuse_status reprofuse_sampler_run(const reprofuse_sampler* sampler, const float* logits, int64_t stride,
                                       reprofuse_sample* samples, size_t count, void* stream) {
  return guarded([&] {
    const reprofuse_sampler& self = unwrap(sampler, "sampler");
    require(samples != nullptr || count == 0, "the array of samples is null");
    // Elements are as far apart as the caller's sizeof says, which may not be this library's.
    const std::size_t step = count == 0 ? 0 : samples->struct_size;
    const auto at = [&](std::size_t i) {
      return reinterpret_cast<reprofuse_sample*>(reinterpret_cast<std::byte*>(samples) + i * step);
    };
    std::vector<reprofuse_sample> rows;
    std::vector<reprofuse::SampleInput> inputs;
    for (std::size_t i = 0; i < count; ++i) {
      const reprofuse_sample& sample = rows.emplace_back(read_struct(at(i), "sample"));
      require(sample.struct_size == step, "sample {} has size {}; the first has size {}", i, sample.struct_size, step);
      inputs.push_back({.params = sampling(sample.sampling),
                        .history = list(sample.history, sample.history_count, "the history"),
                        .position = sample.position,
                        .given = sample.given,
                        .logprobs = sample.logprobs});
    }
    const auto results =
        self.sampler.run({logits, static_cast<std::int64_t>(count), self.vocabulary, stride}, inputs, stream);
    for (std::size_t i = 0; i < count; ++i) {
      rows[i].token = results[i].token;
      rows[i].logprob = results[i].logprob;
      rows[i].rank = results[i].rank;
      for (int j = 0; j < rows[i].logprobs; ++j) rows[i].top[j] = {results[i].top[j].id, results[i].top[j].logprob};
      write_struct(at(i), step, rows[i]);
    }
  });
}
