#include <gtest/gtest.h>

#include "checkpoint/config.hpp"
#include "published_configs.hpp"
#include "support/json.hpp"

namespace reprofuse::checkpoint {
namespace {

ModelConfig parse(const std::string& json) {
  return parse_config(json, "config.json");
}

// Counts of the published checkpoints. Any size, bias, norm or head misread would show in them.
TEST(PublishedConfig, HasThePublishedNumberOfParameters) {
  const auto count = [](const std::string& json) { return parameter_count(parse(json)); };
  EXPECT_EQ(count(kLlama32_1B), 1'235'814'400);
  EXPECT_EQ(count(kLlama32_3B), 3'212'749'824);
  EXPECT_EQ(count(kLlama31_8B), 8'030'261'248);
  EXPECT_EQ(count(kQwen25_7B), 7'615'616'512);
  EXPECT_EQ(count(kQwen3_06B), 596'049'920);
  EXPECT_EQ(count(edited(kQwen3_06B, kQwen3_4B)), 4'022'468'096);
  EXPECT_EQ(count(edited(kQwen3_06B, kQwen3_14B)), 14'768'307'200);
  EXPECT_EQ(count(kMistral7B_v01), 7'241'732'096);
  EXPECT_EQ(count(kMistral7B_v03), 7'248'023'552);
}

TEST(PublishedConfig, Llama32_1B) {
  const ModelConfig config = parse(kLlama32_1B);
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.declared_dtype, DType::kBF16);
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.layers, 16);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.q_size(), 2048);
  EXPECT_EQ(config.kv_size(), 512);
  EXPECT_EQ(config.max_positions, 131072);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rms_norm_eps_f32(), 1e-5F);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias || config.o_bias || config.mlp_bias || config.qk_norm || config.has_window());
  EXPECT_EQ(config.bos_token, 128000);
  EXPECT_EQ(config.eos_tokens, (std::vector<std::int64_t>{128001, 128008, 128009}));
  RotaryConfig rotary;
  rotary.kind = RotaryKind::kLlama3;
  rotary.theta = 500000;
  rotary.factor = 32;
  rotary.low_freq_factor = 1;
  rotary.high_freq_factor = 4;
  rotary.original_max_positions = 8192;
  EXPECT_EQ(config.rotary, rotary);
}

TEST(PublishedConfig, HeadDimFollowsFromTheOthersWhereItIsNotGiven) {
  EXPECT_EQ(parse(kLlama31_8B).head_dim, 128);
  EXPECT_EQ(parse(kQwen25_7B).head_dim, 128);
  EXPECT_EQ(parse(kMistral7B_v01).head_dim, 128);
}

TEST(PublishedConfig, Qwen25HasBiasesOnQkvAndNoWindow) {
  const ModelConfig config = parse(kQwen25_7B);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.o_bias || config.qk_norm || config.tied_embeddings);
  EXPECT_FALSE(config.has_window());  // sliding_window is given, but switched off
  EXPECT_EQ(config.layer_windows, std::vector<std::int64_t>(28, 0));
  EXPECT_EQ(config.rotary.kind, RotaryKind::kPlain);
  EXPECT_EQ(config.rotary.theta, 1e6);
}

TEST(PublishedConfig, Qwen3HasNormsOnQAndKAndHeadsWiderThanItsHiddenSize) {
  const ModelConfig config = parse(kQwen3_06B);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.q_size(), 2048);
  EXPECT_EQ(config.hidden_size, 1024);
}

TEST(PublishedConfig, TheSameModelInTheNewSpellingIsTheSame) {
  EXPECT_EQ(parse(kQwen3_06B), parse(kQwen3_06B_new));
}

TEST(PublishedConfig, MistralHasItsWindowInEveryLayerOrInNone) {
  EXPECT_EQ(parse(kMistral7B_v01).layer_windows, std::vector<std::int64_t>(32, 4096));
  EXPECT_FALSE(parse(kMistral7B_v03).has_window());
}

}  // namespace
}  // namespace reprofuse::checkpoint
