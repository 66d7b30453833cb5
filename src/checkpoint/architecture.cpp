#include "checkpoint/architecture.hpp"

#include "base/check.hpp"

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

}  // namespace reprofuse::checkpoint
