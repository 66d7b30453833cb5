// What the supported families share and where they differ, as one table; and the tensors that a model consists of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.hpp"

namespace reprofuse::checkpoint {

enum class BiasRule : std::uint8_t {
  kNever,
  kByKey,   // attention_bias of config.json: q, k, v and o, all or none
  kQkvOnly  // always on q, k and v, never on o
};

enum class WindowRule : std::uint8_t {
  kNever,
  kEveryLayer,  // sliding_window holds for all layers, or is null
  kByLayer,     // use_sliding_window, max_window_layers, layer_types
};

struct ArchitectureTraits {
  Architecture architecture;
  std::string_view name;        // in "architectures"
  std::string_view model_type;  // in "model_type"
  BiasRule attention_bias;
  bool mlp_bias_by_key;  // mlp_bias of config.json counts
  bool qk_norm;
  WindowRule window;
  // transformers fills these keys with the numbers of one published model when they are absent. We ask for them.
  bool needs_kv_heads;
  bool needs_head_dim;
};

std::span<const ArchitectureTraits> architectures();
const ArchitectureTraits& traits_of(Architecture architecture);

// The tensors that a model consists of, by the names that Hugging Face checkpoints give them.

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
