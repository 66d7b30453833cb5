// What config.json and generation_config.json may not say, and the words in which that is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/config.hpp"
#include "published_configs.hpp"
#include "study/seeded/models.hpp"
#include "support/json.hpp"
#include "support/messages.hpp"

namespace reprofuse::checkpoint {
namespace {

struct Refusal {
  const std::string& base;
  std::string changes;
  std::string message;
};

void expect_refusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    ASSERT_EQ(error_of([&] { parse_config(refusal.base, "config.json"); }), "");  // only the change is at fault
    EXPECT_EQ(error_of([&] { parse_config(edited(refusal.base, refusal.changes), "config.json"); }),
              "config.json: " + refusal.message)
        << refusal.changes;
  }
}

std::string error_of_text(const std::string& json) {
  return error_of([&] { parse_config(json, "config.json"); });
}

TEST(ConfigErrors, UnknownKeysAreNamedWithTheirValue) {
  expect_refusals({
      {kLlama31_8B, R"({"foo": 3})", "key 'foo' with value 3 is not understood"},
      {kLlama31_8B, R"({"foo": null})", "key 'foo' with value null is not understood"},
      {kLlama31_8B, R"({"foo": {"a": [1, "b"]}})", R"(key 'foo' with value {"a":[1,"b"]} is not understood)"},
      {kQwen25_7B, R"({"attention_bias": false})", "key 'attention_bias' with value false is not understood"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "linear", "factor": 2, "foo": "x"}})",
       "key 'rope_scaling.foo' with value 'x' is not understood"},
      {kLlama31_8B, R"({"rope_scaling": {"factor": 2.0}})",
       "key 'rope_scaling.factor' with value 2.0 is not understood"},
      {kQwen3_06B, R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}})",
       R"(key 'rope_parameters.full_attention' with value {"rope_theta":10000.0} is not understood)"},
  });
}

TEST(ConfigErrors, UnsupportedValuesAreNamed) {
  expect_refusals({
      {kLlama31_8B, R"({"hidden_act": "relu2"})", "hidden_act 'relu2' is not supported"},
      {kLlama31_8B, R"({"architectures": ["GPT2LMHeadModel"]})",
       R"(architectures ["GPT2LMHeadModel"] is not supported)"},
      {kLlama31_8B, R"({"architectures": []})", "architectures [] is not supported"},
      {kLlama31_8B, R"({"quantization_config": {"bits": 4}})", R"(quantization_config {"bits":4} is not supported)"},
      {kLlama31_8B, R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor 0.5 is not supported"},
      {kLlama31_8B, R"({"sliding_window": 4096})", "sliding_window 4096 is not supported"},
      {kLlama31_8B, R"({"torch_dtype": "float64"})", "torch_dtype 'float64' is not supported"},
      {kQwen25_7B, R"({"use_mrope": true})", "use_mrope true is not supported"},
      {kQwen25_7B, R"({"mlp_bias": true})", "mlp_bias true is not supported"},
      {kMistral7B_v01, R"({"attention_bias": true})", "attention_bias true is not supported"},
      {kLlama31_8B, R"({"rope_scaling": {"type": "dynamic", "factor": 2}})",
       "rope_scaling.type 'dynamic' is not supported"},
      {kLlama31_8B, R"({"rope_parameters": {"rope_type": "longrope"}})",
       "rope_parameters.rope_type 'longrope' is not supported"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "default", "partial_rotary_factor": 0.25}})",
       "rope_scaling.partial_rotary_factor 0.25 is not supported"},
  });
}

TEST(ConfigErrors, MissingKeysAreNamed) {
  for (const std::string key : {"architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                                "num_attention_heads", "max_position_embeddings", "rms_norm_eps", "hidden_act"})
    for (const std::string value : {R"("<absent>")", "null"})
      expect_refusals({{kLlama31_8B, "{\"" + key + "\": " + value + "}", "key '" + key + "' is missing"}});
  expect_refusals({
      {kQwen25_7B, R"({"num_key_value_heads": "<absent>"})", "key 'num_key_value_heads' is missing"},
      {kQwen3_06B, R"({"head_dim": "<absent>"})", "key 'head_dim' is missing"},
      {kMistral7B_v01, R"({"sliding_window": "<absent>"})", "key 'sliding_window' is missing"},
      {kQwen25_7B, R"({"use_sliding_window": true, "sliding_window": null})", "key 'sliding_window' is missing"},
      {kQwen25_7B, R"({"use_sliding_window": true, "max_window_layers": null})", "key 'max_window_layers' is missing"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "linear"}})", "key 'rope_scaling.factor' is missing"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "yarn"}})", "key 'rope_scaling.factor' is missing"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                        "high_freq_factor": 4}})",
       "key 'rope_scaling.original_max_position_embeddings' is missing"},
  });
}

TEST(ConfigErrors, WrongTypesAndRangesAreNamed) {
  expect_refusals({
      {kLlama31_8B, R"({"hidden_size": 0})", "hidden_size is 0, not an integer from 1 to 1048576"},
      {kLlama31_8B, R"({"hidden_size": -4096})", "hidden_size is -4096, not an integer from 1 to 1048576"},
      {kLlama31_8B, R"({"hidden_size": 4096.0})", "hidden_size is 4096.0, not an integer from 1 to 1048576"},
      {kLlama31_8B, R"({"hidden_size": "4096"})", "hidden_size is '4096', not an integer from 1 to 1048576"},
      {kLlama31_8B, R"({"vocab_size": 4194305})", "vocab_size is 4194305, not an integer from 1 to 4194304"},
      {kLlama31_8B, R"({"max_position_embeddings": 1048577})",
       "max_position_embeddings is 1048577, not an integer from 1 to 1048576"},
      {kLlama31_8B, R"({"num_hidden_layers": 18446744073709551615})",
       "num_hidden_layers is 18446744073709551615, not an integer from 1 to 4096"},
      {kLlama31_8B, R"({"tie_word_embeddings": 1})", "tie_word_embeddings is 1, not true or false"},
      {kLlama31_8B, R"({"rms_norm_eps": "1e-5"})", "rms_norm_eps is '1e-5', not a number from 0 to 1"},
      {kLlama31_8B, R"({"rms_norm_eps": 0})", "rms_norm_eps is 0, not between 0 and 1"},
      {kLlama31_8B, R"({"rms_norm_eps": 1e-60})", "rms_norm_eps is 1e-60, not between 0 and 1"},
      {kLlama31_8B, R"({"rope_theta": 0.5})", "rope_theta is 0.5, not a number from 1 to 1000000000000000"},
      {kLlama31_8B, R"({"rope_theta": 1})", "rope_theta is 1, which turns every dimension alike"},
      {kLlama31_8B, R"({"rope_scaling": "linear"})", "rope_scaling is 'linear', not an object"},
      {kLlama31_8B, R"({"rope_scaling": {"type": "linear", "factor": 0.5}})",
       "rope_scaling.factor is 0.5, not a number from 1 to 1000000"},
      {kLlama31_8B, R"({"eos_token_id": 128256})", "eos_token_id is 128256, not an integer from 0 to 128255"},
      {kLlama31_8B, R"({"eos_token_id": [1, "x"]})", "eos_token_id is 'x', not an integer from 0 to 128255"},
      {kLlama31_8B, R"({"bos_token_id": -1})", "bos_token_id is -1, not an integer from 0 to 128255"},
      {kLlama31_8B, R"({"architectures": "LlamaForCausalLM"})",
       "architectures is 'LlamaForCausalLM', not a list of strings"},
      {kLlama31_8B, R"({"model_type": "qwen2"})", "model_type is 'qwen2', not 'llama', as LlamaForCausalLM has it"},
  });
}

TEST(ConfigErrors, ValuesThatDoNotFitEachOtherAreNamed) {
  expect_refusals({
      {kLlama31_8B, R"({"num_attention_heads": 31, "num_key_value_heads": 31})",
       "hidden_size 4096 is no multiple of num_attention_heads 31, and head_dim is not given"},
      {kLlama31_8B, R"({"num_key_value_heads": 5})", "num_attention_heads 32 is no multiple of num_key_value_heads 5"},
      {kLlama32_1B, R"({"head_dim": 63})", "head_dim 63 is odd, and rotary embedding turns pairs"},
      {kLlama31_8B, R"({"dtype": "float16"})", "torch_dtype is 'bfloat16', not what dtype says"},
      {kMistral7B_v01, R"({"rope_parameters": {"rope_theta": 5.0}})",
       "rope_parameters.rope_theta is 5.0, not the 10000 of rope_theta beside it"},
      {kMistral7B_v01, R"({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2}})",
       "rope_scaling.type is 'linear', not rope_type 'yarn'"},
      {kMistral7B_v01,
       R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "default"}})",
       R"(rope_scaling is {"factor":2,"type":"linear"}, not what rope_parameters says)"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                        "high_freq_factor": 4, "original_max_position_embeddings": 8192}})",
       "low_freq_factor 4 is not between 0 and high_freq_factor 4"},
      {kLlama31_8B, R"({"rope_scaling": {"rope_type": "yarn", "factor": 8, "beta_fast": 1, "beta_slow": 32}})",
       "beta_slow 32 is not between 0 and beta_fast 1"},
      {kQwen3_06B, R"({"layer_types": ["full_attention"]})", "layer_types has 1 entries for 28 layers"},
      {kQwen3_06B, R"({"num_hidden_layers": 1, "layer_types": ["linear_attention"]})",
       "layer_types 'linear_attention' is not supported"},
      {kQwen3_06B, R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]})",
       "layer_types has 'sliding_attention', but no window is in use"},
  });
}

// The largest config that is accepted: what is computed from it must not overflow.
TEST(ConfigErrors, SizesAtTheirLimitsCanBeMultiplied) {
  const std::string largest = edited(kQwen3_06B, R"({"vocab_size": 4194304, "hidden_size": 1048576,
      "intermediate_size": 4194304, "num_hidden_layers": 4096, "num_attention_heads": 4096, "num_key_value_heads": 4096,
      "head_dim": 4096, "tie_word_embeddings": false, "attention_bias": true})");
  const double embeddings = 2 * 0x1p22 * 0x1p20 + 0x1p20;
  const double layer = 4 * 0x1p24 * 0x1p20 + 3 * 0x1p22 * 0x1p20 + 3 * 0x1p24 + 3 * 0x1p20 + 2 * 0x1p12;
  const double exact = 0x1p12 * layer + embeddings;
  ASSERT_LT(exact * sizeof(float), 0x1p63);
  EXPECT_NEAR(static_cast<double>(parameter_count(parse_config(largest, "config.json"))), exact, exact * 1e-12);
}

TEST(ConfigErrors, MalformedJsonIsRefused) {
  EXPECT_EQ(error_of_text("[1]"), "config.json: holds [1] where an object is expected");
  EXPECT_EQ(error_of_text(R"({"a": 1, "b": {"a": 2}, "a": 3})"), "config.json: key 'a' is given twice");
  EXPECT_EQ(error_of_text(std::string(100000, '[')), "config.json: nested deeper than 16 levels");
  EXPECT_EQ(error_of_text("{\"a\":" + std::string(100000, '[')), "config.json: nested deeper than 16 levels");
  for (const std::string text : {"", "{", "{]", "{\"a\": NaN}", "{\"a\": 1e999}", "{} x", "{\"\xff\": 1}"})
    EXPECT_EQ(error_of_text(text).substr(0, 32), "config.json: is not valid JSON: ") << text;
}

TEST(ConfigErrors, LongValuesAreCut) {
  const std::string message = error_of_text(edited(kLlama31_8B, R"({"foo": ")" + std::string(100000, 'x') + "\"}"));
  EXPECT_LT(message.size(), 200U);
  EXPECT_NE(message.find("xxx... is not understood"), std::string::npos) << message;
}

TEST(ConfigErrors, ConfigsMadeByAProgramAreCheckedToo) {
  const auto error_after = [](auto change, Architecture architecture = Architecture::kLlama) {
    ModelConfig config = study::small_config(architecture);
    change(config);
    return error_of([&] { check_config(config, "made"); });
  };
  EXPECT_EQ(error_after([](ModelConfig&) {}), "");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.layers = 2; }), "made: 3 windows for 2 layers");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.qk_norm = true; }), "made: LlamaForCausalLM has no norms of q and k");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.qkv_bias = true; }),
            "made: LlamaForCausalLM has no such attention biases: qkv true, o false");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.layer_windows[1] = 8; }),
            "made: LlamaForCausalLM has no sliding window");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.layer_windows[1] = 8; }, Architecture::kMistral),
            "made: MistralForCausalLM has a sliding window in every layer or in none");
  EXPECT_EQ(error_after(
                [](ModelConfig& c) {
                  c.layer_windows = {8, 0, 9};
                },
                Architecture::kQwen2),
            "made: windows of 8 and of 9 positions in one model");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.mlp_bias = true; }, Architecture::kQwen2),
            "made: Qwen2ForCausalLM has no mlp_bias");
  EXPECT_EQ(error_after([](ModelConfig& c) { c.eos_tokens = {311}; }),
            "made: eos_token_id 311 is not in a vocabulary of 311");
}

}  // namespace
}  // namespace reprofuse::checkpoint
