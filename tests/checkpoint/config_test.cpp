#include "checkpoint/config.hpp"

#include <gtest/gtest.h>

#include "published_configs.hpp"
#include "study/seeded/models.hpp"
#include "support/json.hpp"

namespace reprofuse::checkpoint {
namespace {

ModelConfig parse(const std::string& json) {
  return parse_config(json, "config.json");
}

ModelConfig parse(const std::string& json, const std::string& changes) {
  return parse(edited(json, changes));
}

// One config per family and rotary kind, with every switch that the family has.
std::vector<ModelConfig> varied_configs() {
  std::vector<ModelConfig> configs;
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3, Architecture::kMistral})
    for (const auto kind : {RotaryKind::kPlain, RotaryKind::kLinear, RotaryKind::kLlama3, RotaryKind::kYarn}) {
      ModelConfig config = study::small_config(architecture);
      config.rotary.kind = kind;
      config.rotary.theta = 1234567.875;
      if (kind != RotaryKind::kPlain) config.rotary.factor = 4.5;
      if (kind == RotaryKind::kLlama3) config.rotary.high_freq_factor = 4;
      if (kind == RotaryKind::kLlama3 || kind == RotaryKind::kYarn) config.rotary.original_max_positions = 512;
      if (kind == RotaryKind::kYarn) config.rotary.attention_factor = 1.25;
      config.tied_embeddings = kind == RotaryKind::kLinear;
      if (architecture == Architecture::kLlama) config.mlp_bias = kind == RotaryKind::kYarn;
      if (architecture == Architecture::kLlama || architecture == Architecture::kQwen3)
        config.qkv_bias = config.o_bias = kind == RotaryKind::kLlama3;
      if (architecture == Architecture::kMistral) config.layer_windows.assign(3, kind == RotaryKind::kPlain ? 33 : 0);
      if (architecture == Architecture::kQwen2) config.layer_windows = {0, 33, 33};
      if (architecture == Architecture::kQwen3) config.layer_windows = {33, 0, 33};
      config.declared_dtype = kind == RotaryKind::kPlain ? std::nullopt : std::optional(DType::kF16);
      config.eos_tokens.assign(static_cast<std::size_t>(kind), 7);
      if (kind == RotaryKind::kLinear) config.bos_token.reset();
      configs.push_back(config);
    }
  return configs;
}

TEST(Config, SurvivesWritingAndReadingInBothSpellings) {
  for (const ModelConfig& config : varied_configs())
    for (const Spelling spelling : {Spelling::kOld, Spelling::kNew}) {
      const std::string json = config_to_json(config, spelling);
      EXPECT_EQ(parse(json), config) << json;
    }
}

TEST(Config, AFieldThatChangesDoesNotCompareEqual) {
  ModelConfig config = study::small_config(Architecture::kQwen3);
  config.rotary.theta = 10001;
  EXPECT_NE(parse(config_to_json(config)), study::small_config(Architecture::kQwen3));
}

TEST(Config, TakesBothNamesOfTheRotaryType) {
  const std::string old_name = R"({"rope_scaling": {"type": "linear", "factor": 2}})";
  const std::string new_name = R"({"rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 2.0}})";
  EXPECT_EQ(parse(kMistral7B_v01, old_name).rotary.kind, RotaryKind::kLinear);
  EXPECT_EQ(parse(kMistral7B_v01, old_name), parse(kMistral7B_v01, new_name));
}

TEST(Config, TakesRopeParametersWithItsThetaInsideOrBeside) {
  const std::string inside =
      R"({"rope_theta": "<absent>", "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}})";
  const std::string beside = R"({"rope_theta": 5e5, "rope_parameters": {"rope_type": "default"}})";
  const std::string both =
      R"({"rope_theta": 5e5, "rope_parameters": {"rope_theta": 5e5}, "rope_scaling": {"type": "default"}})";
  EXPECT_EQ(parse(kMistral7B_v01, inside).rotary.theta, 5e5);
  EXPECT_EQ(parse(kMistral7B_v01, inside), parse(kMistral7B_v01, beside));
  EXPECT_EQ(parse(kMistral7B_v01, inside), parse(kMistral7B_v01, both));
}

TEST(Config, ThetaIsTenThousandWhereNothingIsSaid) {
  EXPECT_EQ(parse(kMistral7B_v01, R"({"rope_theta": "<absent>"})").rotary.theta, 10000);
}

TEST(Config, YarnTakesTheDefaultsOfTransformers) {
  const RotaryConfig rotary = parse(kQwen25_7B, R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})").rotary;
  EXPECT_EQ(rotary.kind, RotaryKind::kYarn);
  EXPECT_EQ(rotary.factor, 4);
  EXPECT_EQ(rotary.original_max_positions, 131072);  // max_position_embeddings
  EXPECT_EQ(rotary.beta_fast, 32);
  EXPECT_EQ(rotary.beta_slow, 1);
  EXPECT_TRUE(rotary.truncate);
  EXPECT_EQ(rotary.attention_factor, std::nullopt);
  EXPECT_EQ(rotary.mscale, std::nullopt);
}

TEST(Config, OneOfYarnsTwoScalesAloneHasNoEffect) {
  for (const char* alone : {R"("mscale": 0.7)", R"("mscale_all_dim": 0.8)", R"("mscale": 0.7, "mscale_all_dim": 0)"}) {
    const std::string block = std::string(R"({"rope_scaling": {"type": "yarn", "factor": 4.0, )") + alone + "}}";
    const RotaryConfig rotary = parse(kQwen25_7B, block.c_str()).rotary;
    EXPECT_EQ(rotary.mscale, std::nullopt) << alone;
    EXPECT_EQ(rotary.mscale_all_dim, std::nullopt) << alone;
  }
}

TEST(Config, YarnTakesEveryKeyItKnows) {
  const RotaryConfig rotary = parse(kQwen25_7B, R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                            "original_max_position_embeddings": 32768, "beta_fast": 16, "beta_slow": 2,
                            "truncate": false, "attention_factor": 1.5, "mscale": 0.7, "mscale_all_dim": 0.8}})")
                                  .rotary;
  EXPECT_EQ(rotary.original_max_positions, 32768);
  EXPECT_EQ(rotary.beta_fast, 16);
  EXPECT_EQ(rotary.beta_slow, 2);
  EXPECT_FALSE(rotary.truncate);
  EXPECT_EQ(rotary.attention_factor, 1.5);
  EXPECT_EQ(rotary.mscale, 0.7);
  EXPECT_EQ(rotary.mscale_all_dim, 0.8);
}

TEST(Config, NullIsTakenAsTransformersTakesIt) {
  EXPECT_EQ(parse(kLlama31_8B, R"({"num_key_value_heads": null})").kv_heads, 32);
  EXPECT_EQ(parse(kLlama32_1B, R"({"head_dim": null})").head_dim, 64);
  EXPECT_EQ(parse(kLlama31_8B, R"({"eos_token_id": null})").eos_tokens, std::vector<std::int64_t>());
  EXPECT_EQ(parse(kLlama31_8B, R"({"bos_token_id": null})").bos_token, std::nullopt);
  EXPECT_EQ(parse(kLlama31_8B, R"({"torch_dtype": null})").declared_dtype, std::nullopt);
  EXPECT_EQ(parse(kLlama31_8B, R"({"quantization_config": null})"), parse(kLlama31_8B));
}

TEST(Config, LlamaWithoutKvHeadsHasOnePerHead) {
  EXPECT_EQ(parse(kLlama31_8B, R"({"num_key_value_heads": "<absent>"})").kv_heads, 32);
}

TEST(Config, QwenWindowsBeginAtMaxWindowLayers) {
  const std::string window = R"({"use_sliding_window": true, "sliding_window": 512, "max_window_layers": 26})";
  std::vector<std::int64_t> expected(28, 0);
  expected[26] = expected[27] = 512;
  EXPECT_EQ(parse(kQwen25_7B, window).layer_windows, expected);
}

TEST(Config, LayerTypesWinOverMaxWindowLayers) {
  nlohmann::json changes = {{"use_sliding_window", true}, {"sliding_window", 512}, {"max_window_layers", 28}};
  changes["layer_types"] = std::vector<std::string>(28, "full_attention");
  changes["layer_types"][3] = "sliding_attention";
  std::vector<std::int64_t> expected(28, 0);
  expected[3] = 512;
  EXPECT_EQ(parse(kQwen25_7B, changes.dump()).layer_windows, expected);
}

TEST(Config, BiasesFollowTheFamily) {
  const ModelConfig llama = parse(kLlama31_8B, R"({"attention_bias": true, "mlp_bias": true})");
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const ModelConfig qwen3 = parse(kQwen3_06B, R"({"attention_bias": true})");
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.o_bias);
}

TEST(Config, ExpectedTensorsOfATinyModelAreTheseAndNoOthers) {
  ModelConfig config = study::small_config(Architecture::kQwen2);
  config.layers = 1;
  config.layer_windows.resize(1);
  std::string names;
  for (const ExpectedTensor& tensor : expected_tensors(config))
    names += tensor.name + " " + std::to_string(tensor.shape.front()) + "\n";
  EXPECT_EQ(names,
            "model.embed_tokens.weight 311\n"
            "model.layers.0.input_layernorm.weight 90\n"
            "model.layers.0.self_attn.q_proj.weight 96\n"
            "model.layers.0.self_attn.q_proj.bias 96\n"
            "model.layers.0.self_attn.k_proj.weight 32\n"
            "model.layers.0.self_attn.k_proj.bias 32\n"
            "model.layers.0.self_attn.v_proj.weight 32\n"
            "model.layers.0.self_attn.v_proj.bias 32\n"
            "model.layers.0.self_attn.o_proj.weight 90\n"
            "model.layers.0.post_attention_layernorm.weight 90\n"
            "model.layers.0.mlp.gate_proj.weight 157\n"
            "model.layers.0.mlp.up_proj.weight 157\n"
            "model.layers.0.mlp.down_proj.weight 90\n"
            "model.norm.weight 90\n"
            "lm_head.weight 311\n");
}

TEST(Config, EveryMatrixOfALayerMayHaveABias) {
  ModelConfig config = study::small_config(Architecture::kLlama);
  config.layers = 1;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  std::string biases;
  for (const ExpectedTensor& tensor : expected_tensors(config))
    if (tensor.role == TensorRole::kBias) biases += tensor.name.substr(std::string("model.layers.0.").size()) + " ";
  EXPECT_EQ(biases,
            "self_attn.q_proj.bias self_attn.k_proj.bias self_attn.v_proj.bias self_attn.o_proj.bias "
            "mlp.gate_proj.bias mlp.up_proj.bias mlp.down_proj.bias ");
}

TEST(Config, ParameterCountIsTheSumOverExpectedTensors) {
  for (const ModelConfig& config : varied_configs()) {
    std::int64_t sum = 0;
    for (const ExpectedTensor& tensor : expected_tensors(config))
      sum += tensor.shape[0] * (tensor.shape.size() == 2 ? tensor.shape[1] : 1);
    EXPECT_EQ(parameter_count(config), sum);
  }
}

}  // namespace
}  // namespace reprofuse::checkpoint
