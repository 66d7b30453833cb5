#include "model/model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "numerics/rotary.hpp"
#include "ops/context_state.hpp"

namespace reprofuse::model {
namespace {

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

// How many are served where so many are asked for; 0: as many as the model declares. Throws for sizes that are not
// supported, before any weight is read.
std::int64_t checked_positions(const Context& context, const checkpoint::ModelConfig& config, std::int64_t asked) {
  const std::int64_t max_positions = asked == 0 ? config.max_positions : asked;
  require(max_positions >= 1 && max_positions <= config.max_positions,
          "a context of {} tokens is outside 1 to {}, which the model declares", max_positions, config.max_positions);
  require(max_positions <= kMaxRotaryPositions, "a context of {} tokens; at most {} are possible", max_positions,
          kMaxRotaryPositions);
  context.state().attention->require_shape(config.heads, config.kv_heads, config.head_dim);
  return max_positions;
}

checkpoint::ModelConfig with_heads_of(checkpoint::ModelConfig config, const Share& share) {
  config.heads = share.heads.count;
  config.kv_heads = share.kv_heads.count;
  return config;
}

std::unique_ptr<MirroredObject> tell_followers(const TeamPlace& place) {
  if (!place.team || !place.team->leads()) return nullptr;
  return std::make_unique<MirroredObject>(place.team, Command::kMakeModel, Command::kDropModel,
                                          std::vector<std::int32_t>{place.recipe});
}

}  // namespace

Model::Model(const Context& context, std::shared_ptr<const WeightSource> source, std::int64_t max_positions,
             const Progress& progress, const TeamPlace& place)
    : context_(context),
      config_(source->config()),
      exchange_(place.team ? std::make_unique<Exchange>(place.team, config_) : nullptr),
      share_(exchange_ ? exchange_->own() : share_of(config_, 0, 1)),
      own_config_(with_heads_of(config_, share_)),
      max_positions_(checked_positions(context, own_config_, max_positions)),
      mirrored_(tell_followers(place)),
      weights_(load(std::move(source), progress)),
      bf16_results_(context.state().numerics->elementwise->bf16_results) {
  const FpEnvironment pinned;
  eps_ = config_.rms_norm_eps_f32();
  score_scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  const RotaryTable table = rotary_table(config_.rotary, config_.head_dim, max_positions_);
  cos_ = upload(context, table.cos);
  sin_ = upload(context, table.sin);
}

// In a team, nothing is read before all ranks agree on what it is, and nothing computed before they have read the same.
Weights Model::load(std::shared_ptr<const WeightSource> source, const Progress& progress) const {
  if (!exchange_) return load_weights(context_, std::move(source), share_, false, progress).weights;
  Team& team = exchange_->team();
  InStep in_step(&team);
  team.require_same(fmt::format("version {}\nnumerics {}\ncontext {}\n{}", team.version(), context_.numerics(),
                                max_positions_, checkpoint::config_lines(config_)));
  choose_gather_transport(team, *context_.state().backend);
  LoadedWeights loaded = load_weights(context_, source, share_, source->is_on_disk(), progress);
  const std::vector<std::string> digests = team.exchange(loaded.digest);
  const auto after_tensor = [&] {  // so that whoever watches the progress can stop this, too
    if (progress) progress(source->tensor_bytes(), source->tensor_bytes());
  };
  std::string problem;
  for (int rank = 1; team.leads() && source->is_on_disk() && rank < team.size(); ++rank)
    if (share_digest(*source, loaded.tensors, share_of(config_, rank, team.size()), after_tensor) !=
        digests[static_cast<std::size_t>(rank)])
      problem = fmt::format("{} has read another checkpoint than rank 0: their weights differ",
                            team.communicator().name_of(rank));
  team.require_of_leader(problem);
  in_step.finish();
  return std::move(loaded.weights);
}

std::size_t Model::workspace_bytes(std::int64_t max_rows, std::int64_t max_chunks, std::int64_t max_logit_rows) const {
  const auto as_int = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  std::size_t bytes = context_.state().attention->workspace_bytes({.heads = as_int(own_config_.heads),
                                                                   .kv_heads = as_int(own_config_.kv_heads),
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
  embed(pass);
  forward_embedded(pass, logit_rows, logit_row_count);
}

void Model::embed(const Pass& pass) const {
  look_up(pass);
  round_and_report(pass, checkpoint::kEmbeddingName, "", pass.activations.residual(pass.batch.rows));
}

void Model::forward_embedded(const Pass& pass, const std::int32_t* logit_rows, std::int64_t logit_row_count) const {
  const Activations& a = pass.activations;
  const std::int64_t rows = pass.batch.rows;
  ConstMatrix delta;  // of the sub-layer before: none yet
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    attend(pass, i, delta);
    delta = read_only(a.delta(rows));
    feed_forward(pass, i);
  }
  if (logit_row_count == 0) return;
  const Matrix logits = a.logits(logit_row_count);
  attempt(pass, [&] {
    const Matrix own_logits = a.own_columns(logits, share_.vocabulary);
    if (logit_row_count == rows && may_fuse(pass)) {  // then they are all rows as they come
      const kernels::Producer norm = {.call = norm_call(pass, weights_.final_norm, delta),
                                      .op = weights_.final_norm.op.index()};
      if (FusedLinear::run(pass.scope, norm, weights_.head.layer, weights_.head.outputs({own_logits}))) return;
    }
    rms_norm(pass.scope, weights_.final_norm.op, norm_call(pass, weights_.final_norm, delta));
    report_norm(pass, weights_.final_norm, delta);
    gather_rows(pass.scope, {.x = read_only(a.normed(rows)), .rows = logit_rows, .y = a.logit_inputs(logit_row_count)});
    round_and_report(pass, checkpoint::kFinalNormName, "logit_rows", a.logit_inputs(logit_row_count));
    linear(pass, weights_.head, a.logit_inputs(logit_row_count), {own_logits});
  });
  if (exchange_) exchange_->gather_to_first(pass.scope, a, logits, {&Share::vocabulary});
}

// Each rank looks up the tokens whose rows it has; all rows then stand in the order of ranks.
void Model::look_up(const Pass& pass) const {
  const Matrix residual = pass.activations.residual(pass.batch.rows);
  if (!exchange_)
    return embedding(pass.scope, {.table = weights_.embedding, .tokens = pass.batch.tokens, .x = residual});
  const std::span<const std::int64_t> counts = pass.owners.counts;
  const int rank = exchange_->team().rank();
  const std::int64_t before = std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
  const Matrix all = {
      .data = pass.activations.gathered(), .rows = residual.rows, .cols = residual.cols, .stride = residual.cols};
  Matrix own = all;
  own.data += before * own.stride;
  own.rows = counts[static_cast<std::size_t>(rank)];
  if (own.rows > 0) embedding(pass.scope, {.table = weights_.embedding, .tokens = pass.owners.own_tokens, .x = own});
  exchange_->all_gather_rows(pass.scope, all.data, counts, all.cols);
  gather_rows(pass.scope, {.x = read_only(all), .rows = pass.owners.places, .y = residual});
}

// `delta`: what the layer before adds to the residual, if there is one.
void Model::attend(const Pass& pass, std::int64_t index, ConstMatrix delta) const {
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
  const Activations& a = pass.activations;
  const std::int64_t rows = pass.batch.rows;
  const Matrix attended = a.attended(rows);
  const Matrix own_heads = a.own_columns(attended, share_.heads.times(config_.head_dim));
  attempt(pass, [&] {
    norm_and_multiply(pass, layer.input_norm, delta, layer.qkv, {a.q(rows), a.k(rows), a.v(rows)});
    const kernels::KvPages kv = pass.cache.layer(index);
    // Rotates q and k, and stores k and v in the pages.
    const kernels::RotaryCall rotation = {.q = a.q(rows),
                                          .k = read_only(a.k(rows)),
                                          .v = read_only(a.v(rows)),
                                          .q_norm = layer.q_norm ? layer.q_norm->as<float>() : nullptr,
                                          .k_norm = layer.k_norm ? layer.k_norm->as<float>() : nullptr,
                                          .eps = eps_,
                                          .cos = cos_.as<float>(),
                                          .sin = sin_.as<float>(),
                                          .batch = pass.batch,
                                          .kv = kv};
    const kernels::AttentionCall call = {
        .q = read_only(a.q(rows)),
        .kv = kv,
        .batch = pass.batch,
        .heads = static_cast<std::int32_t>(own_config_.heads),
        .scale = score_scale_,
        .window = static_cast<std::int32_t>(config_.layer_windows[static_cast<std::size_t>(index)]),
        .out = own_heads};
    if (may_fuse(pass) && rotary_and_attention(pass.scope, layer.attention, rotation, call)) return;
    rotary(pass.scope, rotation);
    round_and_report(pass, layer.attention.name(), "rotary", a.q(rows));
    if (pass.observer) pass.observer({.name = layer.attention.name() + ".rotary", .stored = kv});
    attention(pass.scope, layer.attention, call);
    round_and_report(pass, layer.attention.name(), "attention", own_heads);
  });
  all_gather_columns(pass, attended, {&Share::heads, config_.head_dim});
  attempt(pass, [&] { linear(pass, layer.o, attended, {a.own_columns(a.delta(rows), share_.hidden)}); });
  all_gather_columns(pass, a.delta(rows), {&Share::hidden});
}

void Model::feed_forward(const Pass& pass, std::int64_t index) const {
  const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(index)];
  const Activations& a = pass.activations;
  const std::int64_t rows = pass.batch.rows;
  const Matrix product = a.product(rows);
  const Matrix own_product = a.own_columns(product, share_.intermediate);
  const Matrix added = a.own_columns(a.delta(rows), share_.hidden);
  const kernels::SiluGateCall gating = {.gate = read_only(a.gate(rows)), .up = read_only(a.up(rows)), .y = own_product};
  const auto gate = [&] { silu_gate(pass.scope, gating); };
  const auto report = [&] { round_and_report(pass, checkpoint::layer_tensor_name(index, "mlp"), "silu", own_product); };
  attempt(pass, [&] {
    norm_and_multiply(pass, layer.post_attention_norm, read_only(a.delta(rows)), layer.gate_up,
                      {a.gate(rows), a.up(rows)});
    if (!exchange_) return linear_after(pass, {.call = gating}, layer.down, {added}, gate, report);
    gate();
    report();
  });
  if (!exchange_) return;
  all_gather_columns(pass, product, {&Share::intermediate});
  attempt(pass, [&] { linear(pass, layer.down, product, {added}); });
  all_gather_columns(pass, a.delta(rows), {&Share::hidden});
}

// Alone, all columns are there already.
void Model::all_gather_columns(const Pass& pass, Matrix whole, Columns columns) const {
  if (exchange_) exchange_->all_gather_columns(pass.scope, pass.activations, whole, columns, *pass.failure);
}

// A rank that fails among others goes on to the next gather, or they would wait for it in vain.
template <typename Work>
void Model::attempt(const Pass& pass, const Work& work) const {
  if (!exchange_) return work();
  if (*pass.failure) return;
  try {
    work();
  } catch (const NonFiniteError& error) {
    pass.failure->emplace(error);
  }
}

// Whether ops may be done at once, so that results between them are nowhere as floats.
bool Model::may_fuse(const Pass& pass) const {
  return !pass.observer && !bf16_results_;
}

// `delta` is added to the residual, if there is one, before that is normalized.
kernels::RmsNormCall Model::norm_call(const Pass& pass, const Norm& norm, ConstMatrix delta) const {
  const Activations& a = pass.activations;
  return {.x = a.residual(pass.batch.rows),
          .delta = delta,
          .weight = norm.weight.as<float>(),
          .eps = eps_,
          .y = a.normed(pass.batch.rows)};
}

void Model::report_norm(const Pass& pass, const Norm& norm, ConstMatrix delta) const {
  const Activations& a = pass.activations;
  if (delta.data != nullptr) round_and_report(pass, norm.op.name(), "residual", a.residual(pass.batch.rows));
  round_and_report(pass, norm.op.name(), "", a.normed(pass.batch.rows));
}

void Model::norm_and_multiply(const Pass& pass, const Norm& norm, ConstMatrix delta, const Projection& projection,
                              std::initializer_list<Matrix> outputs) const {
  const kernels::RmsNormCall call = norm_call(pass, norm, delta);
  linear_after(
      pass, {.call = call, .op = norm.op.index()}, projection, outputs, [&] { rms_norm(pass.scope, norm.op, call); },
      [&] { report_norm(pass, norm, delta); });
}

void Model::linear(const Pass& pass, const Projection& projection, Matrix x,
                   std::initializer_list<Matrix> outputs) const {
  const std::vector<LinearOutput> with_bias = projection.outputs(outputs);
  projection.layer.run(read_only(x), with_bias, pass.scope.workspace, pass.scope.stream);
  report_outputs(pass, projection, x, with_bias);
}

// The op that makes x, by the layer itself where it can: then x need not be anywhere as floats.
template <typename Run, typename Report>
void Model::linear_after(const Pass& pass, const kernels::Producer& producer, const Projection& projection,
                         std::initializer_list<Matrix> outputs, const Run& run, const Report& report) const {
  const std::vector<LinearOutput> with_bias = projection.outputs(outputs);
  kernels::Producer watched = producer;
  watched.keeps_x = static_cast<bool>(pass.observer);
  if (bf16_results_ || !FusedLinear::run(pass.scope, watched, projection.layer, with_bias)) {
    run();
    report();
    return linear(pass, projection, producer.x(), outputs);
  }
  report();
  report_outputs(pass, projection, producer.x(), with_bias);
}

void Model::report_outputs(const Pass& pass, const Projection& projection, Matrix x,
                           std::span<const LinearOutput> outputs) const {
  if (!pass.observer) return;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    pass.observer({.name = &projection == &weights_.head ? kHeadOp : result_name(projection.tensors[i]),
                   .values = outputs[i].y,
                   .projection = &projection,
                   .x = read_only(x)});
}

// The results of linear layers are BF16 values already where the numerics ask for that.
void Model::round_and_report(const Pass& pass, std::string_view name, std::string_view suffix, Matrix result) const {
  if (bf16_results_) round_bf16(pass.scope, {.x = result});
  if (pass.observer) pass.observer({.name = result_name(name, suffix), .values = result});
}

}  // namespace reprofuse::model
