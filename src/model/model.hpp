// A decoder-only transformer of the Llama family (Llama, Mistral, Qwen2, Qwen3): weights and the forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/config.hpp"
#include "kernels/op_calls.hpp"
#include "model/activations.hpp"
#include "model/exchange.hpp"
#include "model/kv_cache.hpp"
#include "model/team.hpp"
#include "model/weights.hpp"
#include "ops/buffer.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

// What an op of a pass left, for whoever watches the pass: `values` or, where keys and values were stored, `stored`.
struct OpResult {
  std::string name;    // "model.layers.0.mlp.down_proj": a weight's name, or else what is done there
  Matrix values = {};  // a row per token of the pass or, from the gathering on, per row of logits
  const Projection* projection = nullptr;  // of a linear layer, and what it was given
  ConstMatrix x = {};
  std::optional<kernels::KvPages> stored = {};
};
using OpObserver = std::function<void(const OpResult& result)>;

// The tokens of a pass by the ranks that own their rows of the embedding.
struct TokenOwners {
  std::span<const std::int64_t> counts;      // of tokens, per rank
  const std::int32_t* own_tokens = nullptr;  // those of this rank, as rows of its share of the embedding
  const std::int32_t* places = nullptr;      // [rows]: where a row's token is when they stand in the order of owners
};

// What a forward pass works on. The observer, if there is one, is called after every op.
struct Pass {
  OpScope scope;
  kernels::Batch batch;
  const KvCache& cache;
  const Activations& activations;
  const OpObserver& observer;
  // Of a rank among several: `failure` is what was not finite here, which the others learn at the next gather.
  TokenOwners owners = {};
  Failure* failure = nullptr;
};

class Model {
 public:
  // Serves sequences of up to max_positions tokens; 0: as many as the model declares. In a team, all ranks make their
  // shares of it together: the leader's constructor tells the others to.
  Model(const Context& context, std::shared_ptr<const WeightSource> source, std::int64_t max_positions = 0,
        const Progress& progress = {}, const TeamPlace& place = {});

  const Context& context() const { return context_; }
  const checkpoint::ModelConfig& config() const { return config_; }
  // The config with the heads of this rank, for which its cache has room.
  const checkpoint::ModelConfig& own_config() const { return own_config_; }
  const Share& share() const { return share_; }
  const Exchange* exchange() const { return exchange_.get(); }  // null: one rank alone
  // By which the other ranks know it; on the leader of a team alone.
  std::int32_t number() const { return mirrored_->number(); }
  std::int64_t max_positions() const { return max_positions_; }

  // Scratch that forward() needs for any pass within these sizes.
  std::size_t workspace_bytes(std::int64_t max_rows, std::int64_t max_chunks, std::int64_t max_logit_rows) const;

  // Computes every row of the batch, adds its keys and values to the cache, and leaves the logits of the rows listed in
  // `logit_rows`, in their order and each once, in the activations' logits(). Bits: a row's depend on the tokens of its
  // own sequence alone. Where work is asynchronous, enqueues on the scope's stream and returns; check_workspace() tells
  // of non-finite values. Of several ranks the first has all logits, and whether one has failed is known after
  // Exchange::agree().
  void forward(const Pass& pass, const std::int32_t* logit_rows, std::int64_t logit_row_count) const;

  // Its two halves. How much ranks gather for the first depends on the tokens; the second can be captured in a graph.
  void embed(const Pass& pass) const;
  void forward_embedded(const Pass& pass, const std::int32_t* logit_rows, std::int64_t logit_row_count) const;

 private:
  Weights load(std::shared_ptr<const WeightSource> source, const Progress& progress) const;
  void look_up(const Pass& pass) const;
  void attend(const Pass& pass, std::int64_t layer, ConstMatrix delta) const;
  void feed_forward(const Pass& pass, std::int64_t layer) const;
  bool may_fuse(const Pass& pass) const;
  kernels::RmsNormCall norm_call(const Pass& pass, const Norm& norm, ConstMatrix delta) const;
  void report_norm(const Pass& pass, const Norm& norm, ConstMatrix delta) const;
  void norm_and_multiply(const Pass& pass, const Norm& norm, ConstMatrix delta, const Projection& projection,
                         std::initializer_list<Matrix> outputs) const;
  void all_gather_columns(const Pass& pass, Matrix whole, Columns columns) const;
  template <typename Work>
  void attempt(const Pass& pass, const Work& work) const;
  void linear(const Pass& pass, const Projection& projection, Matrix x, std::initializer_list<Matrix> outputs) const;
  template <typename Run, typename Report>
  void linear_after(const Pass& pass, const kernels::Producer& producer, const Projection& projection,
                    std::initializer_list<Matrix> outputs, const Run& run, const Report& report) const;
  void report_outputs(const Pass& pass, const Projection& projection, Matrix x,
                      std::span<const LinearOutput> outputs) const;
  void round_and_report(const Pass& pass, std::string_view name, std::string_view suffix, Matrix result) const;

  Context context_;
  checkpoint::ModelConfig config_;
  std::unique_ptr<Exchange> exchange_;  // null: one rank alone
  Share share_;
  checkpoint::ModelConfig own_config_;
  std::int64_t max_positions_;
  std::unique_ptr<MirroredObject> mirrored_;  // of the leader
  Weights weights_;
  Buffer cos_, sin_;          // [max_positions, head_dim / 2]
  float eps_ = 0.0F;          // of the norms
  float score_scale_ = 0.0F;  // 1 / sqrt(head_dim)
  bool bf16_results_;
};

}  // namespace reprofuse::model
