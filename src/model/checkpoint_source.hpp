// A checkpoint on disk as the source of a model's weights.
#pragma once

#include <string_view>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "model/weight_source.hpp"

namespace reprofuse::model {

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
