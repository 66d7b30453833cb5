// Writing config.json.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/architecture.hpp"
#include "checkpoint/config_keys.hpp"
#include "checkpoint/config_rotary.hpp"

namespace reprofuse::checkpoint {
namespace {

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return "bfloat16";
    case DType::kF16: return "float16";
    case DType::kF32: break;
  }
  return "float32";
}

void write_rotary(const RotaryConfig& rotary, Spelling spelling, Json& out) {
  Json block = rotary_to_json(rotary);
  if (spelling == Spelling::kNew) {
    block["rope_theta"] = rotary.theta;
    out["rope_parameters"] = std::move(block);
    return;
  }
  out["rope_theta"] = rotary.theta;
  out["rope_scaling"] = rotary.kind == RotaryKind::kPlain ? Json(nullptr) : std::move(block);
}

void write_windows(const ModelConfig& config, WindowRule rule, Json& out) {
  if (rule == WindowRule::kNever) return;
  const auto& windows = config.layer_windows;
  const auto first = std::find_if(windows.begin(), windows.end(), [](std::int64_t window) { return window != 0; });
  const bool any = first != windows.end();
  out["sliding_window"] = any ? Json(*first) : Json(nullptr);
  if (rule == WindowRule::kEveryLayer) return;
  out["use_sliding_window"] = any;
  out["max_window_layers"] = first - windows.begin();
  Json types = Json::array();
  for (const std::int64_t window : windows) types.push_back(window == 0 ? "full_attention" : "sliding_attention");
  out["layer_types"] = std::move(types);
}

}  // namespace

std::string config_to_json(const ModelConfig& config, Spelling spelling) {
  const ArchitectureTraits& traits = traits_of(config.architecture);
  Json out = {{"architectures", {traits.name}},
              {"model_type", traits.model_type},
              {"hidden_act", "silu"},
              {"rms_norm_eps", config.rms_norm_eps},
              {"tie_word_embeddings", config.tied_embeddings}};
  for (const SizeKey& size : kSizeKeys) out[std::string(size.key)] = config.*size.field;
  out[std::string(kKvHeadsKey.key)] = config.kv_heads;
  out[std::string(kHeadDimKey.key)] = config.head_dim;
  if (traits.attention_bias == BiasRule::kByKey) out["attention_bias"] = config.qkv_bias;
  if (traits.mlp_bias_by_key) out["mlp_bias"] = config.mlp_bias;
  if (config.declared_dtype)
    out[spelling == Spelling::kNew ? "dtype" : "torch_dtype"] = torch_name(*config.declared_dtype);
  write_rotary(config.rotary, spelling, out);
  write_windows(config, traits.window, out);
  out["bos_token_id"] = config.bos_token ? Json(*config.bos_token) : Json(nullptr);
  const auto& eos = config.eos_tokens;
  out["eos_token_id"] = eos.empty() ? Json(nullptr) : eos.size() == 1 ? Json(eos.front()) : Json(eos);
  return out.dump(2) + "\n";
}

}  // namespace reprofuse::checkpoint
