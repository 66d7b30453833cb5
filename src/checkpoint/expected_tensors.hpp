// The tensors that a model consists of, by the names that Hugging Face checkpoints give them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.hpp"

namespace reprofuse::checkpoint {

enum class TensorRole : std::uint8_t { kEmbedding, kMatrix, kBias, kNorm };

struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // matrices are [outputs, inputs]
  TensorRole role;
};

inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
inline constexpr std::string_view kFinalNormName = "model.norm.weight";
inline constexpr std::string_view kHeadName = "lm_head.weight";  // expected of an untied model only

// layer_tensor(3, "self_attn.q_proj.weight") is "model.layers.3.self_attn.q_proj.weight".
std::string layer_tensor(std::int64_t layer, std::string_view part);

// In the order of the forward pass.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// Elements over all expected tensors. The limits of check_config keep their bytes, too, within an int64.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace reprofuse::checkpoint
