#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "base/check.hpp"
#include "checkpoint/config.hpp"

namespace reprofuse::checkpoint {
namespace {

constexpr ArchitectureTraits kArchitectures[] = {
    {.architecture = Architecture::kLlama,
     .name = "LlamaForCausalLM",
     .model_type = "llama",
     .attention_bias = BiasRule::kByKey,
     .mlp_bias_by_key = true,
     .qk_norm = false,
     .window = WindowRule::kNever,
     .needs_kv_heads = false,
     .needs_head_dim = false},
    {.architecture = Architecture::kQwen2,
     .name = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .attention_bias = BiasRule::kQkvOnly,
     .mlp_bias_by_key = false,
     .qk_norm = false,
     .window = WindowRule::kByLayer,
     .needs_kv_heads = true,
     .needs_head_dim = false},
    {.architecture = Architecture::kQwen3,
     .name = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .attention_bias = BiasRule::kByKey,
     .mlp_bias_by_key = false,
     .qk_norm = true,
     .window = WindowRule::kByLayer,
     .needs_kv_heads = true,
     .needs_head_dim = true},
    {.architecture = Architecture::kMistral,
     .name = "MistralForCausalLM",
     .model_type = "mistral",
     .attention_bias = BiasRule::kNever,
     .mlp_bias_by_key = false,
     .qk_norm = false,
     .window = WindowRule::kEveryLayer,
     .needs_kv_heads = true,
     .needs_head_dim = false},
};

}  // namespace

std::span<const ArchitectureTraits> architectures() {
  return kArchitectures;
}

const ArchitectureTraits& traits_of(Architecture architecture) {
  for (const ArchitectureTraits& traits : kArchitectures)
    if (traits.architecture == architecture) return traits;
  fail(ErrorCode::kInvalidArgument, "architecture {} does not exist", static_cast<int>(architecture));
}

std::string_view architecture_name(Architecture architecture) {
  return traits_of(architecture).name;
}

namespace {

struct LayerTensor {
  std::string_view name;
  std::vector<std::int64_t> shape;
  TensorRole role;
  bool present;
};

std::vector<LayerTensor> layer_tensors(const ModelConfig& c) {
  using enum TensorRole;
  return {
      {"input_layernorm.weight", {c.hidden_size}, kNorm, true},
      {"self_attn.q_proj.weight", {c.q_size(), c.hidden_size}, kMatrix, true},
      {"self_attn.q_proj.bias", {c.q_size()}, kBias, c.qkv_bias},
      {"self_attn.k_proj.weight", {c.kv_size(), c.hidden_size}, kMatrix, true},
      {"self_attn.k_proj.bias", {c.kv_size()}, kBias, c.qkv_bias},
      {"self_attn.v_proj.weight", {c.kv_size(), c.hidden_size}, kMatrix, true},
      {"self_attn.v_proj.bias", {c.kv_size()}, kBias, c.qkv_bias},
      {"self_attn.q_norm.weight", {c.head_dim}, kNorm, c.qk_norm},
      {"self_attn.k_norm.weight", {c.head_dim}, kNorm, c.qk_norm},
      {"self_attn.o_proj.weight", {c.hidden_size, c.q_size()}, kMatrix, true},
      {"self_attn.o_proj.bias", {c.hidden_size}, kBias, c.o_bias},
      {"post_attention_layernorm.weight", {c.hidden_size}, kNorm, true},
      {"mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size}, kMatrix, true},
      {"mlp.gate_proj.bias", {c.intermediate_size}, kBias, c.mlp_bias},
      {"mlp.up_proj.weight", {c.intermediate_size, c.hidden_size}, kMatrix, true},
      {"mlp.up_proj.bias", {c.intermediate_size}, kBias, c.mlp_bias},
      {"mlp.down_proj.weight", {c.hidden_size, c.intermediate_size}, kMatrix, true},
      {"mlp.down_proj.bias", {c.hidden_size}, kBias, c.mlp_bias},
  };
}

}  // namespace

std::string layer_tensor_name(std::int64_t layer, std::string_view tensor) {
  return fmt::format("model.layers.{}.{}", layer, tensor);
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> tensors;
  tensors.push_back({std::string(kEmbeddingName), {config.vocab_size, config.hidden_size}, TensorRole::kEmbedding});
  const std::vector<LayerTensor> of_layer = layer_tensors(config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    for (const LayerTensor& tensor : of_layer)
      if (tensor.present) tensors.push_back({layer_tensor_name(layer, tensor.name), tensor.shape, tensor.role});
  tensors.push_back({std::string(kFinalNormName), {config.hidden_size}, TensorRole::kNorm});
  if (!config.tied_embeddings)
    tensors.push_back({std::string(kHeadName), {config.vocab_size, config.hidden_size}, TensorRole::kMatrix});
  return tensors;
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t layer = 0;
  for (const LayerTensor& tensor : layer_tensors(config))
    if (tensor.present)
      layer += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies());
  const std::int64_t matrices = config.tied_embeddings ? 1 : 2;  // the embedding, and the head
  return config.layers * layer + matrices * config.vocab_size * config.hidden_size + config.hidden_size;
}

}  // namespace reprofuse::checkpoint
