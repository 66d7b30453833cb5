// Where a model's tensors come from: a checkpoint, or seeded random numbers.
#pragma once

#include <cstdint>
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
  // Shaped as checkpoint::expected_tensors() says. Valid until it is released; that of the embedding, as long as the
  // source.
  virtual checkpoint::TensorView tensor(std::string_view name) const = 0;
  // Its bytes are not needed soon; they may leave memory and come back when touched.
  virtual void release(const checkpoint::TensorView& tensor) const = 0;
};

// A checkpoint on disk as the source of a model's weights.
class CheckpointSource final : public WeightSource {
 public:
  explicit CheckpointSource(checkpoint::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  const checkpoint::Checkpoint& checkpoint() const { return checkpoint_; }
  const checkpoint::ModelConfig& config() const override { return checkpoint_.config(); }
  std::int64_t tensor_bytes() const override { return checkpoint_.tensor_bytes(); }
  checkpoint::TensorView tensor(std::string_view name) const override { return checkpoint_.tensor(name); }
  void release(const checkpoint::TensorView& tensor) const override { checkpoint_.release(tensor); }

 private:
  checkpoint::Checkpoint checkpoint_;
};

}  // namespace reprofuse::model
