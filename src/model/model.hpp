// A decoder-only transformer of the Llama family (Llama, Mistral, Qwen2, Qwen3): weights and the forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/model_ops.hpp"
#include "model/activations.hpp"
#include "model/kv_cache.hpp"
#include "model/weights.hpp"

namespace reprofuse::model {

// Told of every linear layer, with its input, before the layer runs.
using LinearObserver = std::function<void(const Projection& projection, ConstMatrix x)>;

class Model {
 public:
  // Serves sequences of up to max_positions tokens; 0: as many as the model declares.
  Model(const Context& context, std::shared_ptr<const WeightSource> source, std::int64_t max_positions = 0,
        const LoadProgress& progress = {});

  const Context& context() const { return context_; }
  const checkpoint::ModelConfig& config() const { return config_; }
  std::int64_t max_positions() const { return max_positions_; }

  // For studies of real activations, where the host can read x: the observer is called by the thread that runs the
  // pass.
  void observe_linear(LinearObserver observer);

  // Scratch that forward() needs for any pass within these sizes.
  std::size_t workspace_bytes(std::int64_t max_rows, std::int64_t max_chunks, std::int64_t max_logit_rows) const;

  // Computes every row of the batch, adds its keys and values to the cache, and leaves the logits of the rows listed in
  // `logit_rows` in activations.logits(). Bits: a row's depend on the tokens of its own sequence alone.
  // Where work is asynchronous, enqueues on the scope's stream and returns; check_workspace() tells of non-finite
  // values.
  void forward(const OpScope& scope, const kernels::Batch& batch, const std::int32_t* logit_rows,
               std::int64_t logit_row_count, const KvCache& cache, const Activations& activations) const;

 private:
  void attend(const OpScope& scope, std::int64_t layer, const kernels::Batch& batch, const KvCache& cache,
              const Activations& activations) const;
  void feed_forward(const OpScope& scope, std::int64_t layer, std::int64_t rows, const Activations& activations) const;
  void norm(const OpScope& scope, const Norm& norm, Matrix x, ConstMatrix delta, Matrix y) const;
  void linear(const OpScope& scope, const Projection& projection, Matrix x,
              std::initializer_list<Matrix> outputs) const;
  void finish(const OpScope& scope, Matrix result) const;

  Context context_;
  checkpoint::ModelConfig config_;
  std::int64_t max_positions_;
  bool checked_;  // that the sizes are supported; before any weight is read
  Weights weights_;
  Buffer cos_, sin_;          // [max_positions, head_dim / 2]
  float eps_ = 0.0F;          // of the norms
  float score_scale_ = 0.0F;  // 1 / sqrt(head_dim)
  bool bf16_results_;
  LinearObserver linear_observer_;
};

}  // namespace reprofuse::model
