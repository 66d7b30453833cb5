#include "model/model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "checkpoint/expected_tensors.hpp"
#include "numerics/rotary.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::model {
namespace {

ConstMatrix read_only(Matrix m) {
  return {.data = m.data, .rows = m.rows, .cols = m.cols, .stride = m.stride};
}

// A result goes by the weight's name, without its ending.
std::string result_name(std::string_view name, std::string_view suffix = {}) {
  constexpr std::string_view kEnding = ".weight";
  if (name.ends_with(kEnding)) name.remove_suffix(kEnding.size());
  return suffix.empty() ? std::string(name) : fmt::format("{}.{}", name, suffix);
}

Buffer upload(const Context& context, const std::vector<float>& values) {
  Buffer buffer(context, values.size() * sizeof(float));
  copy_to_device(context, buffer.as<void>(), values.data(), buffer.bytes());
  return buffer;
}

// Before any weight is read. Returns true, so that it can stand among the initialisers.
bool check_sizes(const Context& context, const checkpoint::ModelConfig& config, std::int64_t max_positions) {
  require(max_positions >= 1 && max_positions <= config.max_positions,
          "a context of {} tokens is outside 1 to {}, which the model declares", max_positions, config.max_positions);
  require(max_positions <= kMaxRotaryPositions, "a context of {} tokens; at most {} are possible", max_positions,
          kMaxRotaryPositions);
  context.state().attention->require_shape(config.heads, config.kv_heads, config.head_dim);
  return true;
}

}  // namespace

Model::Model(const Context& context, std::shared_ptr<const WeightSource> source, std::int64_t max_positions,
             const Progress& progress)
    : context_(context),
      config_(source->config()),
      max_positions_(max_positions == 0 ? config_.max_positions : max_positions),
      checked_(check_sizes(context, config_, max_positions_)),
      weights_(load_weights(context, std::move(source), progress)),
      bf16_results_(context.state().contract->elementwise->bf16_results) {
  const FpEnvironment pinned;
  eps_ = config_.rms_norm_eps_f32();
  score_scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  const RotaryTables tables = make_rotary_tables(config_.rotary, config_.head_dim, max_positions_);
  cos_ = upload(context, tables.cos);
  sin_ = upload(context, tables.sin);
}

std::size_t Model::workspace_bytes(std::int64_t max_rows, std::int64_t max_chunks, std::int64_t max_logit_rows) const {
  const auto as_int = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  std::size_t bytes = context_.state().attention->workspace_bytes({.heads = as_int(config_.heads),
                                                                   .kv_heads = as_int(config_.kv_heads),
                                                                   .head_dim = as_int(config_.head_dim),
                                                                   .chunks = as_int(max_chunks),
                                                                   .rows = as_int(max_rows),
                                                                   .max_keys = as_int(max_positions_)});
  for (const LayerWeights& layer : weights_.layers)
    for (const Projection* projection : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down})
      bytes = std::max(bytes, projection->layer.workspace_bytes(max_rows));
  return std::max(bytes, weights_.head.layer.workspace_bytes(max_logit_rows));
}

void Model::forward(const Pass& pass, const std::int32_t* logit_rows, std::int64_t logit_row_count) const {
  const Activations& a = pass.activations;
  const std::int64_t rows = pass.batch.rows;
  embedding(pass.scope, {.table = weights_.embedding, .tokens = pass.batch.tokens, .x = a.residual(rows)});
  round_and_report(pass, checkpoint::kEmbeddingName, "", a.residual(rows));
  ConstMatrix delta;  // of the sub-layer before: none yet
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    add_and_norm(pass, layer.input_norm, delta);
    attend(pass, i);
    delta = read_only(a.delta(rows));
    add_and_norm(pass, layer.post_attention_norm, delta);
    feed_forward(pass, i);
  }
  if (logit_row_count == 0) return;
  add_and_norm(pass, weights_.final_norm, delta);
  gather_rows(pass.scope, {.x = read_only(a.normed(rows)), .rows = logit_rows, .y = a.logit_inputs(logit_row_count)});
  round_and_report(pass, checkpoint::kFinalNormName, "logit_rows", a.logit_inputs(logit_row_count));
  linear(pass, weights_.head, a.logit_inputs(logit_row_count), {a.logits(logit_row_count)});
}

void Model::attend(const Pass& pass, std::int64_t index) const {
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
  const Activations& a = pass.activations;
  const std::int64_t rows = pass.batch.rows;
  linear(pass, layer.qkv, a.normed(rows), {a.q(rows), a.k(rows), a.v(rows)});
  const kernels::KvPages kv = pass.cache.layer(index);
  // Rotates q and k, and stores k and v in the pages.
  rotary(pass.scope, {.q = a.q(rows),
                      .k = read_only(a.k(rows)),
                      .v = read_only(a.v(rows)),
                      .q_norm = layer.q_norm ? layer.q_norm->as<float>() : nullptr,
                      .k_norm = layer.k_norm ? layer.k_norm->as<float>() : nullptr,
                      .eps = eps_,
                      .cos = cos_.as<float>(),
                      .sin = sin_.as<float>(),
                      .batch = pass.batch,
                      .kv = kv});
  round_and_report(pass, layer.attention.name(), "rotary", a.q(rows));
  if (pass.observer) pass.observer({.name = layer.attention.name() + ".rotary", .stored = kv});
  attention(pass.scope, layer.attention,
            {.q = read_only(a.q(rows)),
             .kv = kv,
             .batch = pass.batch,
             .heads = static_cast<std::int32_t>(config_.heads),
             .scale = score_scale_,
             .window = static_cast<std::int32_t>(config_.layer_windows[static_cast<std::size_t>(index)]),
             .out = a.attended(rows)});
  round_and_report(pass, layer.attention.name(), "attention", a.attended(rows));
  linear(pass, layer.o, a.attended(rows), {a.delta(rows)});
}

void Model::feed_forward(const Pass& pass, std::int64_t index) const {
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
  const Activations& a = pass.activations;
  const std::int64_t rows = pass.batch.rows;
  linear(pass, layer.gate_up, a.normed(rows), {a.gate(rows), a.up(rows)});
  silu_gate(pass.scope, {.gate = read_only(a.gate(rows)), .up = read_only(a.up(rows)), .y = a.gate(rows)});
  round_and_report(pass, checkpoint::layer_tensor(index, "mlp"), "silu", a.gate(rows));
  linear(pass, layer.down, a.gate(rows), {a.delta(rows)});
}

// Adds `delta` to the residual, if there is one, and normalises it.
void Model::add_and_norm(const Pass& pass, const Norm& norm, ConstMatrix delta) const {
  const Matrix x = pass.activations.residual(pass.batch.rows), y = pass.activations.normed(pass.batch.rows);
  rms_norm(pass.scope, norm.op, {.x = x, .delta = delta, .weight = norm.weight.as<float>(), .eps = eps_, .y = y});
  if (delta.data != nullptr) round_and_report(pass, norm.op.name(), "residual", x);
  round_and_report(pass, norm.op.name(), "", y);
}

void Model::linear(const Pass& pass, const Projection& projection, Matrix x,
                   std::initializer_list<Matrix> outputs) const {
  std::vector<LinearOutput> with_bias;
  for (const Matrix& y : outputs) with_bias.push_back({.y = y, .bias = projection.bias(with_bias.size())});
  projection.layer.run(read_only(x), with_bias, pass.scope.workspace, pass.scope.stream);
  if (!pass.observer) return;
  for (std::size_t i = 0; i < with_bias.size(); ++i)
    pass.observer({.name = &projection == &weights_.head ? kHeadOp : result_name(projection.tensors[i]),
                   .values = with_bias[i].y,
                   .projection = &projection,
                   .x = read_only(x)});
}

// The results of linear layers are BF16 values already where the numerics ask for that.
void Model::round_and_report(const Pass& pass, std::string_view name, std::string_view suffix, Matrix result) const {
  if (bf16_results_) round_bf16(pass.scope, {.x = result});
  if (pass.observer) pass.observer({.name = result_name(name, suffix), .values = result});
}

}  // namespace reprofuse::model
