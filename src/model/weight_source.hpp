// Where a model's tensors come from: a checkpoint, or seeded random numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"

namespace reprofuse::model {

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

}  // namespace reprofuse::model
