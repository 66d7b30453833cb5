// A NaN or an infinity anywhere in a model is an error that names the place, never a wrong answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/runner.hpp"
#include "reprofuse/error.hpp"
#include "study/seeded/models.hpp"
#include "support/altered_source.hpp"

namespace reprofuse::model {
namespace {

using checkpoint::Architecture;
using checkpoint::layer_tensor_name;
using checkpoint::ModelConfig;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kTokens = 6;

std::shared_ptr<AlteredSource> random_model(Architecture architecture) {
  return std::make_shared<AlteredSource>(
      std::make_shared<study::RandomSource>(study::small_config(architecture), DType::kBF16, 5));
}

AlteredSource::Change set(std::size_t index, float value) {
  return [=](std::span<float> values) { values[index] = value; };
}

AlteredSource::Change fill(float value) {
  return [=](std::span<float> values) { std::fill(values.begin(), values.end(), value); };
}

// Zeros, and one value that is not.
AlteredSource::Change only(std::size_t index, float value) {
  return [=](std::span<float> values) {
    std::fill(values.begin(), values.end(), 0.0F);
    values[index] = value;
  };
}

AlteredSource::Change scale(std::size_t begin, std::size_t end, float factor) {
  return [=](std::span<float> values) {
    for (std::size_t i = begin; i < end; ++i) values[i] *= factor;
  };
}

// Of loading the model and one pass over the tokens 0, 1, 2, ...
std::string pass_error(const std::shared_ptr<const WeightSource>& source) {
  try {
    const Model model(Context::cpu(), source, 64);
    KvCache cache(model.context(), model.config(), 1);
    Runner runner(model, cache, {.rows = kTokens, .sequences = 1, .logit_rows = kTokens});
    Sequence sequence(cache);
    EXPECT_TRUE(sequence.reserve(kTokens));
    std::vector<std::int32_t> tokens(kTokens);
    std::iota(tokens.begin(), tokens.end(), 0);
    const TokenChunk chunk{&sequence, tokens, Logits::kAll};
    runner.run(std::span(&chunk, 1));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonFinite) << error.what();
    return error.what();
  }
  return "";
}

TEST(NonFinite, TheModelsAreSoundUntilTheyAreAltered) {
  for (const Architecture architecture : {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3})
    EXPECT_EQ(pass_error(random_model(architecture)), "");
}

TEST(NonFinite, AWeightOfAnyMatrixIsFoundAndItsLayerNamed) {
  const struct {
    const char* tensor;
    const char* layer;
  } cases[] = {{"self_attn.q_proj", "self_attn.qkv"},    {"self_attn.v_proj", "self_attn.qkv"},
               {"self_attn.o_proj", "self_attn.o_proj"}, {"mlp.gate_proj", "mlp.gate_up"},
               {"mlp.up_proj", "mlp.gate_up"},           {"mlp.down_proj", "mlp.down_proj"}};
  for (const auto& [tensor, layer] : cases) {
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      const auto source = random_model(Architecture::kLlama);
      source->change(layer_tensor_name(1, tensor) + ".weight", set(91, value));
      const std::string message = pass_error(source);
      EXPECT_EQ(message.find("linear '" + layer_tensor_name(1, layer) + "'"), 0U) << tensor << ": " << message;
    }
  }
}

TEST(NonFinite, TheHeadIsChecked) {
  const auto source = random_model(Architecture::kLlama);
  source->change("lm_head.weight", set(7, kNan));
  const std::string message = pass_error(source);
  EXPECT_EQ(message.find("linear 'lm_head'"), 0U) << message;
}

TEST(NonFinite, ABiasOrANormWeightIsFoundWhereItIsUsed) {
  const struct {
    Architecture architecture;
    const char* tensor;
    const char* message;
  } cases[] = {
      {Architecture::kQwen2, "self_attn.k_proj.bias",
       "linear 'model.layers.1.self_attn.qkv' output 1 row 0 column 3: the result is not finite"},
      {Architecture::kLlama, "input_layernorm.weight",
       "linear 'model.layers.1.self_attn.qkv' output 0 row 0 column 0: the result is not finite"},
      {Architecture::kLlama, "post_attention_layernorm.weight",
       "linear 'model.layers.1.mlp.gate_up' output 0 row 0 column 0: the result is not finite"},
      {Architecture::kQwen3, "self_attn.q_norm.weight",
       "attention 'model.layers.1.self_attn' row 0 head 0: a score is not finite"},
      {Architecture::kQwen3, "self_attn.k_norm.weight",
       "attention 'model.layers.1.self_attn' row 0 head 0: a score is not finite"},
  };
  for (const auto& [architecture, tensor, message] : cases) {
    for (const float value : {kNan, kInfinity}) {
      const auto source = random_model(architecture);
      source->change(layer_tensor_name(1, tensor), set(3, value));
      EXPECT_EQ(pass_error(source), message);
    }
  }
}

TEST(NonFinite, AnEmbeddingIsFoundInTheFirstNormOfItsRow) {
  const auto source = random_model(Architecture::kLlama);
  const auto width = static_cast<std::size_t>(source->config().hidden_size);
  source->change("model.embed_tokens.weight", set(4 * width + 2, kInfinity));
  EXPECT_EQ(pass_error(source), "norm 'model.layers.0.input_layernorm.weight' row 4: the sum of squares is not finite");
}

// Every weight is finite, and so is every value that the first layer computes: its feed-forward adds 2^70 to the text's
// fourth row alone, whose square is beyond binary32.
TEST(NonFinite, AnOverflowInANormNamesTheNormAndTheRow) {
  const auto source = random_model(Architecture::kLlama);
  const auto width = static_cast<std::size_t>(source->config().hidden_size);
  constexpr std::size_t kColumn = 11;
  source->change("model.embed_tokens.weight", [&](std::span<float> values) {
    for (std::size_t row = 0; row * width < values.size(); ++row) values[row * width + kColumn] = 0.0F;
    values[3 * width + kColumn] = 8.0F;
  });
  source->change(layer_tensor_name(0, "self_attn.o_proj.weight"), fill(0.0F));
  source->change(layer_tensor_name(0, "mlp.gate_proj.weight"), only(kColumn, 1.0F));
  source->change(layer_tensor_name(0, "mlp.up_proj.weight"), only(kColumn, 1.0F));
  source->change(layer_tensor_name(0, "mlp.down_proj.weight"), only(0, 0x1p70F));
  EXPECT_EQ(pass_error(source), "norm 'model.layers.1.input_layernorm.weight' row 3: the sum of squares is not finite");

  source->change(layer_tensor_name(0, "mlp.down_proj.weight"), only(0, 0x1p10F));
  EXPECT_EQ(pass_error(source), "") << "a smaller value is no error";
}

TEST(NonFinite, AScoreThatOverflowsNamesTheLayerTheRowAndTheHead) {
  const auto source = random_model(Architecture::kLlama);
  const ModelConfig& config = source->config();
  const auto of_head = static_cast<std::size_t>(config.head_dim * config.hidden_size);
  source->change(layer_tensor_name(2, "self_attn.q_proj.weight"), scale(4 * of_head, 5 * of_head, 0x1p100F));
  EXPECT_EQ(pass_error(source), "") << "large queries alone are no error";
  source->change(layer_tensor_name(2, "self_attn.k_proj.weight"), scale(of_head, 2 * of_head, 0x1p60F));
  EXPECT_EQ(pass_error(source), "attention 'model.layers.2.self_attn' row 0 head 4: a score is not finite");
}

// A norm over a head whose squares overflow: 1 / sqrt(infinity) would make it zeros, and nobody would see it.
TEST(NonFinite, AnOverflowInAHeadNormIsAnErrorOfTheScores) {
  for (const char* projection : {"self_attn.q_proj.weight", "self_attn.k_proj.weight"}) {
    const auto source = random_model(Architecture::kQwen3);
    const ModelConfig& config = source->config();
    const auto of_head = static_cast<std::size_t>(config.head_dim * config.hidden_size);
    source->change(layer_tensor_name(1, projection), scale(of_head, 2 * of_head, 0x1p80F));
    const std::string head = std::string(projection).find("q_proj") != std::string::npos ? "1" : "3";
    EXPECT_EQ(pass_error(source),
              "attention 'model.layers.1.self_attn' row 0 head " + head + ": a score is not finite");
  }
}

}  // namespace
}  // namespace reprofuse::model
