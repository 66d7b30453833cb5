// The target: config.json, generation_config.json and model.safetensors.index.json.
#include <string>
#include <string_view>

#include "bytes_target.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"

namespace reprofuse::fuzz {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::GenerationConfig;
using checkpoint::ModelConfig;
using checkpoint::Spelling;
using checkpoint::WeightMap;

constexpr std::int64_t kVocabulary = 1000;

std::optional<std::string> try_config(const std::string& text, Sabotage sabotage) {
  const ModelConfig config = checkpoint::parse_config(text, "fuzz");
  for (const Spelling spelling : {Spelling::kOld, Spelling::kNew}) {
    ModelConfig again = checkpoint::parse_config(checkpoint::config_to_json(config, spelling), "written");
    if (sabotage == Sabotage::kAlterResult) again.rms_norm_eps *= 2;
    if (again != config) return "written and read again, the config is another";
  }
  std::int64_t elements = 0;
  for (const ExpectedTensor& tensor : checkpoint::expected_tensors(config)) {
    std::int64_t product = 1;
    for (const std::int64_t size : tensor.shape)
      if (size < 1 || __builtin_mul_overflow(product, size, &product)) return "a tensor's size is not positive";
    if (__builtin_add_overflow(elements, product, &elements)) return "the model's size overflows";
  }
  if (elements != checkpoint::parameter_count(config)) return "parameter_count is not the sum over the tensors";
  return std::nullopt;
}

std::optional<std::string> try_generation_config(const std::string& text, Sabotage sabotage) {
  GenerationConfig config = checkpoint::parse_generation_config(text, "fuzz", kVocabulary);
  if (sabotage == Sabotage::kAlterResult) config.eos_tokens.push_back(kVocabulary);
  for (const std::int64_t id : config.eos_tokens)
    if (id < 0 || id >= kVocabulary) return "an eos token is not in the vocabulary";
  if (config.temperature && !(*config.temperature >= 0)) return "a negative temperature";
  if (config.top_p && !(*config.top_p > 0 && *config.top_p <= 1)) return "top_p is not in (0, 1]";
  if (config.min_p && !(*config.min_p >= 0 && *config.min_p <= 1)) return "min_p is not in [0, 1]";
  if (config.repetition_penalty && !(*config.repetition_penalty > 0)) return "repetition_penalty is not positive";
  return std::nullopt;
}

std::optional<std::string> try_index(const std::string& text, Sabotage sabotage) {
  const WeightMap weight_map = checkpoint::parse_shard_index(text, "fuzz");
  WeightMap again = checkpoint::parse_shard_index(checkpoint::shard_index_to_json(weight_map, 0), "written");
  if (sabotage == Sabotage::kAlterResult) again["added"] = "../x";
  if (again != weight_map) return "written and read again, the index is another";
  for (const auto& [tensor, file] : weight_map)
    if (file.find('/') != std::string::npos || !file.ends_with(".safetensors")) return "a file name leads elsewhere";
  return std::nullopt;
}

}  // namespace

Outcome try_input(std::span<const std::uint8_t> input, Sabotage sabotage) {
  const std::string text(input.begin(), input.end());
  Outcome all;
  for (const auto& reader : {try_config, try_generation_config, try_index}) {
    const Outcome outcome = outcome_of([&] { return reader(text, sabotage); });
    all.accepted = all.accepted || outcome.accepted;
    if (outcome.violation) all.violation = outcome.violation;
  }
  return all;
}

std::vector<Bytes> valid_inputs() {
  constexpr std::string_view kTexts[] = {
      R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":1,"eos_token_id":[2,3],"head_dim":8,
          "hidden_act":"silu","hidden_size":32,"intermediate_size":64,"max_position_embeddings":128,"mlp_bias":true,
          "num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":2,"rms_norm_eps":1e-05,
          "rope_scaling":{"factor":8.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
          "original_max_position_embeddings":64,"rope_type":"llama3"},"rope_theta":500000.0,"torch_dtype":"bfloat16",
          "tie_word_embeddings":true,"vocab_size":100})",
      R"({"architectures":["Qwen2ForCausalLM"],"hidden_act":"silu","hidden_size":32,"intermediate_size":64,
          "max_position_embeddings":128,"max_window_layers":1,"num_attention_heads":4,"num_hidden_layers":2,
          "num_key_value_heads":4,"rms_norm_eps":1e-06,"rope_scaling":{"type":"yarn","factor":4.0,"beta_fast":16,
          "mscale":1.0,"mscale_all_dim":0.5},"sliding_window":16,"use_sliding_window":true,"vocab_size":100})",
      R"({"architectures":["Qwen3ForCausalLM"],"dtype":"float16","head_dim":8,"hidden_act":"silu","hidden_size":32,
          "intermediate_size":64,"layer_types":["full_attention","sliding_attention"],"max_position_embeddings":128,
          "num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":1,"rms_norm_eps":1e-06,
          "rope_parameters":{"rope_theta":1e6,"rope_type":"linear","factor":2},"sliding_window":16,
          "use_sliding_window":true,"vocab_size":100})",
      R"({"architectures":["MistralForCausalLM"],"hidden_act":"silu","hidden_size":32,"intermediate_size":64,
          "max_position_embeddings":128,"num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":null,
          "rms_norm_eps":1e-05,"sliding_window":null,"vocab_size":100,"transformers_version":"4.42.0"})",
      R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"min_p":0.0,"repetition_penalty":1.05,
          "eos_token_id":[1,2],"bos_token_id":3,"pad_token_id":4,"max_new_tokens":2048,"num_beams":1})",
      R"({"metadata":{"total_size":12},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})",
  };
  std::vector<Bytes> inputs;
  for (const std::string_view text : kTexts) inputs.emplace_back(text.begin(), text.end());
  return inputs;
}

std::vector<std::string_view> dictionary() {
  return {R"("rope_scaling":{"type":"dynamic","factor":2},)",
          R"("quantization_config":{},)",
          R"("head_dim":null,)",
          R"("foo":1,)",
          R"("num_key_value_heads":3,)",
          R"("eos_token_id":[],)",
          R"("layer_types":["full_attention"],)",
          R"("partial_rotary_factor":0.5,)",
          R"("../../x.safetensors")",
          "[[[[[[[[[[[[[[[[[[[[",
          "{\"a\":",
          "}",
          "]",
          ",",
          "null",
          "true",
          "\\ud800",
          "\xff",
          "1e999"};
}

bool takes_every_input() {
  return false;
}

void repair(Bytes&) {}  // JSON alone has no length to keep in step

}  // namespace reprofuse::fuzz
