// What a model's linear layers are really given: their inputs, caught during a pass over a text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/weight_source.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

struct LinearInput {
  std::vector<std::string> tensors;  // the weights that are multiplied with it, as the source names them
  std::int64_t rows;                 // tokens
  std::int64_t cols;
  std::vector<float> values;  // [rows, cols]

  ConstMatrix view() const { return {.data = values.data(), .rows = rows, .cols = cols, .stride = cols}; }
};

// One pass over all tokens, in the order in which the layers run, the head over every token last. The context is a
// CPU's; by a contract the values are a function of the model and the tokens alone.
std::vector<LinearInput> capture_linear_inputs(const Context& context,
                                               std::shared_ptr<const model::WeightSource> source,
                                               std::span<const std::int32_t> tokens);

}  // namespace reprofuse::study
