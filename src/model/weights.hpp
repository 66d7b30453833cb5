// A model's weights, made ready for a context's device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/share.hpp"
#include "model/weight_source.hpp"
#include "ops/buffer.hpp"
#include "ops/transformer_ops.hpp"
#include "reprofuse/linear.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::model {

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

// A tensor as the ranks share it: each takes the rows of its part, `unit` for each of the range, or all of it.
struct TensorPart {
  std::string name;
  std::optional<Range Share::*> range = {};
  std::int64_t unit = 1;

  checkpoint::TensorView read(const WeightSource& source, const Share& share) const;
};

struct LoadedWeights {
  Weights weights;
  std::vector<TensorPart> parts;  // in the order in which they were read
  std::string digest;             // SHA-256 of their bytes in that order; of a source that is not on disk, empty
};

// Reads the rows of its share, and none else. Where memory is shared, layers pack each matrix and its bytes in the
// source can go; a device with memory of its own holds one copy of each, in the form that its layer takes.
// Reports progress after each tensor.
LoadedWeights load_weights(const Context& context, std::shared_ptr<const WeightSource> source, const Share& share,
                           bool with_digest, const Progress& progress);

// The digest that a rank with this share must have.
std::string parts_digest(const WeightSource& source, const std::vector<TensorPart>& parts, const Share& share,
                         const std::function<void()>& after_part);

}  // namespace reprofuse::model
