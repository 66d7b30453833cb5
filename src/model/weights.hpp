// A model's weights, made ready for a context's device.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"
#include "model/team.hpp"
#include "ops/buffer.hpp"
#include "ops/transformer_ops.hpp"
#include "reprofuse/linear.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

// Where a model's tensors come from: a checkpoint, or seeded random numbers.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const checkpoint::ModelConfig& config() const = 0;
  virtual std::int64_t tensor_bytes() const = 0;  // of all tensors
  // Shaped as checkpoint::expected_tensors() says. Valid as long as its owner, or else as the source.
  virtual checkpoint::TensorView tensor(std::string_view name) const = 0;
  // Some of its rows: outputs of a matrix, elements of a vector. A copy out of the whole, unless a source has a way
  // to read no more than these.
  virtual checkpoint::TensorView rows(std::string_view name, std::int64_t first, std::int64_t count) const;
  // Files that another machine may have otherwise.
  virtual bool is_on_disk() const { return false; }
};

// A checkpoint on disk as the source of a model's weights.
class CheckpointSource final : public WeightSource {
 public:
  explicit CheckpointSource(checkpoint::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  const checkpoint::Checkpoint& checkpoint() const { return checkpoint_; }
  const checkpoint::ModelConfig& config() const override { return checkpoint_.config(); }
  std::int64_t tensor_bytes() const override { return checkpoint_.tensor_bytes(); }
  checkpoint::TensorView tensor(std::string_view name) const override { return checkpoint_.read_tensor(name); }
  checkpoint::TensorView rows(std::string_view name, std::int64_t first, std::int64_t count) const override {
    return checkpoint_.read_rows(name, first, count);
  }
  bool is_on_disk() const override { return true; }

 private:
  checkpoint::Checkpoint checkpoint_;
};

// A checkpoint that takes the digests of the very bytes that it gives away, while they are put to use: the digest is
// that of the model that was made of them, whatever happens to the files.
class HashedSource final : public WeightSource {
 public:
  explicit HashedSource(std::shared_ptr<const CheckpointSource> source) : source_(std::move(source)) {}

  const checkpoint::ModelConfig& config() const override { return source_->config(); }
  std::int64_t tensor_bytes() const override { return source_->tensor_bytes(); }
  // A tensor that has another digest than the last time is an error: the file was changed.
  checkpoint::TensorView tensor(std::string_view name) const override;
  bool is_on_disk() const override { return true; }

  std::string manifest() const;  // reads the tensors that nobody has asked for as a whole

 private:
  struct UnderWay {
    std::string name;
    std::int64_t bytes;
    std::future<std::string> digest;
  };
  void finish_first() const;

  std::shared_ptr<const CheckpointSource> source_;
  mutable std::deque<UnderWay> under_way_;  // each on a thread of its own
  mutable std::int64_t bytes_under_way_ = 0;
  mutable checkpoint::TensorDigests digests_;
};

inline constexpr const char* kHeadOp = "lm_head";  // the one op whose rows are those that have logits

// A norm's weight [size], in binary32, and the name of the place where it is applied.
struct Norm {
  Buffer weight;
  NamedOp op;
};

// One linear layer over one x, and the biases of its outputs.
struct Projection {
  LinearLayer layer;
  std::vector<std::string> tensors;  // the weight of each output, as the source names it
  std::vector<Buffer> biases;        // empty, or one per output

  std::vector<LinearOutput> outputs(std::initializer_list<Matrix> results) const {
    std::vector<LinearOutput> with_bias;
    for (const Matrix& y : results)
      with_bias.push_back({.y = y, .bias = biases.empty() ? nullptr : biases[with_bias.size()].as<float>()});
    return with_bias;
  }
};

struct LayerWeights {
  Norm input_norm;
  Projection qkv;
  std::optional<Buffer> q_norm;  // [head_dim]
  std::optional<Buffer> k_norm;
  NamedOp attention;
  Projection o;
  Norm post_attention_norm;
  Projection gate_up;
  Projection down;
};

struct Weights {
  WeightView embedding;  // [rows of the share's vocabulary, hidden_size] on the device
  std::vector<LayerWeights> layers;
  Norm final_norm;
  Projection head;

  // What the views, and the layers of a device with memory of its own, point into.
  std::shared_ptr<const WeightSource> source;
  std::optional<checkpoint::HostTensor> host_embedding;  // in shared memory: rows are widened as tokens ask for them
  std::vector<Buffer> device_matrices;
};

// A tensor as the ranks share it: each takes the rows of its range, `unit` for each number there, or all of it.
struct RankTensor {
  std::string name;
  std::optional<Range Share::*> range = {};
  std::int64_t unit = 1;

  checkpoint::TensorView read(const WeightSource& source, const Share& share) const;
};

struct LoadedWeights {
  Weights weights;
  std::vector<RankTensor> tensors;  // in the order in which they were read
  std::string digest;               // SHA-256 of their bytes in that order; of a source that is not on disk, empty
};

// Reads the rows of its share, and none else. Where memory is shared, layers pack each matrix and its bytes in the
// source can go; a device with memory of its own holds one copy of each, in the form that its layer takes.
// Reports progress after each tensor.
LoadedWeights load_weights(const Context& context, std::shared_ptr<const WeightSource> source, const Share& share,
                           bool with_digest, const Progress& progress);

// The digest that a rank with this share must have.
std::string share_digest(const WeightSource& source, const std::vector<RankTensor>& tensors, const Share& share,
                         const std::function<void()>& after_tensor);

}  // namespace reprofuse::model
