// A decoder-only transformer of the Llama family (Llama, Mistral, Qwen2, Qwen3): weights and the forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/config.hpp"
#include "kernels/op_calls.hpp"
#include "model/kv_cache.hpp"
#include "model/weights.hpp"
#include "ops/buffer.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

// What flows through a forward pass, one row per token. Sized once for the largest pass.
class Activations {
 public:
  Activations(const Context& context, const checkpoint::ModelConfig& config, std::int64_t max_rows,
              std::int64_t max_logit_rows)
      : config_(config),
        residual_(context, bytes(max_rows * config.hidden_size)),
        normed_(context, bytes(max_rows * config.hidden_size)),
        qkv_(context, bytes(max_rows * (config.q_size() + 2 * config.kv_size()))),
        attended_(context, bytes(max_rows * config.q_size())),
        delta_(context, bytes(max_rows * config.hidden_size)),
        gate_up_(context, bytes(max_rows * 2 * config.intermediate_size)),
        logit_inputs_(context, bytes(max_logit_rows * config.hidden_size)),
        logits_(context, bytes(max_logit_rows * config.vocab_size)) {}

  Matrix residual(std::int64_t rows) const { return dense(residual_, rows, config_.hidden_size); }
  Matrix normed(std::int64_t rows) const { return dense(normed_, rows, config_.hidden_size); }
  Matrix delta(std::int64_t rows) const { return dense(delta_, rows, config_.hidden_size); }  // what a sub-layer adds
  Matrix attended(std::int64_t rows) const { return dense(attended_, rows, config_.q_size()); }
  // Of the rows that get logits.
  Matrix logit_inputs(std::int64_t rows) const { return dense(logit_inputs_, rows, config_.hidden_size); }
  Matrix logits(std::int64_t rows) const { return dense(logits_, rows, config_.vocab_size); }

  // Columns of one [rows, q_size + 2 kv_size] matrix.
  Matrix q(std::int64_t rows) const { return columns(qkv_, rows, 0, config_.q_size(), qkv_width()); }
  Matrix k(std::int64_t rows) const { return columns(qkv_, rows, config_.q_size(), config_.kv_size(), qkv_width()); }
  Matrix v(std::int64_t rows) const {
    return columns(qkv_, rows, config_.q_size() + config_.kv_size(), config_.kv_size(), qkv_width());
  }
  Matrix qkv(std::int64_t rows) const { return dense(qkv_, rows, qkv_width()); }
  // Columns of one [rows, 2 intermediate_size] matrix. silu(gate) * up takes the place of gate.
  Matrix gate(std::int64_t rows) const {
    return columns(gate_up_, rows, 0, config_.intermediate_size, 2 * config_.intermediate_size);
  }
  Matrix up(std::int64_t rows) const {
    return columns(gate_up_, rows, config_.intermediate_size, config_.intermediate_size, 2 * config_.intermediate_size);
  }
  Matrix gate_up(std::int64_t rows) const { return dense(gate_up_, rows, 2 * config_.intermediate_size); }

 private:
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }
  static Matrix columns(const Buffer& buffer, std::int64_t rows, std::int64_t first, std::int64_t cols,
                        std::int64_t stride) {
    return {.data = buffer.as<float>() + first, .rows = rows, .cols = cols, .stride = stride};
  }
  static Matrix dense(const Buffer& buffer, std::int64_t rows, std::int64_t cols) {
    return columns(buffer, rows, 0, cols, cols);
  }
  std::int64_t qkv_width() const { return config_.q_size() + 2 * config_.kv_size(); }

  checkpoint::ModelConfig config_;
  Buffer residual_, normed_, qkv_, attended_, delta_, gate_up_, logit_inputs_, logits_;
};

// What an op of a pass left, for who watches the pass: `values` or, where keys and values were stored, `stored`.
struct OpResult {
  std::string name;    // "model.layers.0.mlp.down_proj": a weight's name, or else what is done there
  Matrix values = {};  // a row per token of the pass or, from the gathering on, per row of logits
  const Projection* projection = nullptr;  // of a linear layer, and what it was given
  ConstMatrix x = {};
  std::optional<kernels::KvPages> stored = {};
};
using OpObserver = std::function<void(const OpResult& result)>;

// What a forward pass works on. The observer, if there is one, is called after every op.
struct Pass {
  OpScope scope;
  kernels::Batch batch;
  const KvCache& cache;
  const Activations& activations;
  const OpObserver& observer;
};

class Model {
 public:
  // Serves sequences of up to max_positions tokens; 0: as many as the model declares.
  Model(const Context& context, std::shared_ptr<const WeightSource> source, std::int64_t max_positions = 0,
        const Progress& progress = {});

  const Context& context() const { return context_; }
  const checkpoint::ModelConfig& config() const { return config_; }
  std::int64_t max_positions() const { return max_positions_; }

  // Scratch that forward() needs for any pass within these sizes.
  std::size_t workspace_bytes(std::int64_t max_rows, std::int64_t max_chunks, std::int64_t max_logit_rows) const;

  // Computes every row of the batch, adds its keys and values to the cache, and leaves the logits of the rows listed in
  // `logit_rows` in the activations' logits(). Bits: a row's depend on the tokens of its own sequence alone.
  // Where work is asynchronous, enqueues on the scope's stream and returns; check_workspace() tells of non-finite
  // values.
  void forward(const Pass& pass, const std::int32_t* logit_rows, std::int64_t logit_row_count) const;

 private:
  void attend(const Pass& pass, std::int64_t layer) const;
  void feed_forward(const Pass& pass, std::int64_t layer) const;
  void add_and_norm(const Pass& pass, const Norm& norm, ConstMatrix delta) const;
  void linear(const Pass& pass, const Projection& projection, Matrix x, std::initializer_list<Matrix> outputs) const;
  void round_and_report(const Pass& pass, std::string_view name, std::string_view suffix, Matrix result) const;

  Context context_;
  checkpoint::ModelConfig config_;
  std::int64_t max_positions_;
  bool checked_;  // that the sizes are supported; before any weight is read
  Weights weights_;
  Buffer cos_, sin_;          // [max_positions, head_dim / 2]
  float eps_ = 0.0F;          // of the norms
  float score_scale_ = 0.0F;  // 1 / sqrt(head_dim)
  bool bf16_results_;
};

}  // namespace reprofuse::model
