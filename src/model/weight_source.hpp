// Where a model's tensors come from: a checkpoint, or seeded random numbers.
#pragma once

#include <cstdint>
#include <string_view>

#include "checkpoint/config.hpp"
#include "checkpoint/tensor_view.hpp"

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

}  // namespace reprofuse::model
