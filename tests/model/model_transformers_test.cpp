// Our logits beside those of Hugging Face transformers in FP32, which transformers_reference.py recorded, for every
// model case; and its greedy answers with the bundled model, token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/runner.hpp"
#include "study/seeded/models.hpp"
#include "support/altered_source.hpp"
#include "support/bundled_model.hpp"
#include "support/plain_generate.hpp"

namespace reprofuse::model {
namespace {

using checkpoint::layer_tensor_name;
using nlohmann::json;
using study::ModelCase;

// Of the largest logit of a row, in absolute value.
constexpr double kTolerance = 2e-5;

const json& reference() {
  static const json data = read_json(REPROFUSE_TRANSFORMERS_DATA);
  return data;
}

// The largest |ours - theirs| of a row over the largest |theirs|, and the worst of those over the recorded rows.
double worst_difference(const Model& model, const ModelCase& spec) {
  const std::vector<std::int32_t> tokens = study::case_tokens(spec);
  KvCache cache(model.context(), model.config(), (spec.tokens + kDefaultPageSize - 1) / kDefaultPageSize);
  Runner runner(model, cache, {.rows = spec.tokens, .sequences = 1, .logit_rows = spec.tokens});
  Sequence sequence(cache);
  EXPECT_TRUE(sequence.reserve(spec.tokens));
  const TokenChunk chunk{&sequence, tokens, Logits::kAll};
  runner.run(std::span(&chunk, 1));
  const std::vector<float> logits = runner.host_logits();

  double worst = 0.0;
  const json& rows = reference().at("cases").at(spec.name);
  EXPECT_GE(rows.size(), 6U);
  for (const json& row : rows) {
    const std::vector<double> theirs = row.at("logits");
    EXPECT_EQ(static_cast<std::int64_t>(theirs.size()), spec.config.vocab_size);
    const float* ours = logits.data() + row.at("position").get<std::size_t>() * theirs.size();
    double scale = 0.0;
    double difference = 0.0;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      scale = std::max(scale, std::abs(theirs[i]));
      difference = std::max(difference, std::abs(static_cast<double>(ours[i]) - theirs[i]));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

// The cases that transformers computed.
std::vector<ModelCase> recorded_cases() {
  std::vector<ModelCase> cases = study::model_cases();
  std::erase_if(cases, [](const ModelCase& spec) { return !reference().at("cases").contains(spec.name); });
  return cases;
}

std::vector<ModelCase> recorded_cases_with_a_window() {
  std::vector<ModelCase> cases = recorded_cases();
  std::erase_if(cases, [](const ModelCase& spec) { return !spec.config.has_window(); });
  return cases;
}

std::string test_name(const testing::TestParamInfo<ModelCase>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TEST(TransformersData, HasEveryArchitectureAndNoCaseThatIsGone) {
  std::set<checkpoint::Architecture> architectures;
  for (const ModelCase& spec : recorded_cases()) architectures.insert(spec.config.architecture);
  EXPECT_EQ(architectures.size(), 4U);
  EXPECT_EQ(recorded_cases().size(), reference().at("cases").size());
}

class AgainstTransformers : public testing::TestWithParam<ModelCase> {};

TEST_P(AgainstTransformers, LogitsAgreeWithinTheTolerance) {
  const double worst = worst_difference(*study::make_model(Context::cpu(), GetParam()), GetParam());
  std::printf("%s: largest difference %.2e of the row's largest logit\n", GetParam().name.c_str(), worst);
  EXPECT_LE(worst, kTolerance);
}

// What a reader of checkpoints could get wrong is far outside the tolerance.
TEST_P(AgainstTransformers, AnotherRotaryBaseIsFound) {
  ModelCase altered = GetParam();
  altered.config.rotary.theta *= 1.01;
  EXPECT_GT(worst_difference(*study::make_model(Context::cpu(), altered), altered), 10 * kTolerance);
}

TEST_P(AgainstTransformers, NormsOfTwoLayersExchangedAreFound) {
  const ModelCase& spec = GetParam();
  const auto source =
      std::make_shared<AlteredSource>(std::make_shared<study::RandomSource>(spec.config, spec.dtype, spec.seed));
  source->swap(layer_tensor_name(0, "input_layernorm.weight"), layer_tensor_name(1, "input_layernorm.weight"));
  const Model altered(Context::cpu(), source, kTestPositions);
  EXPECT_GT(worst_difference(altered, spec), 10 * kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Cases, AgainstTransformers, testing::ValuesIn(recorded_cases()), test_name);

class WindowAgainstTransformers : public testing::TestWithParam<ModelCase> {};

TEST_P(WindowAgainstTransformers, OnePositionMoreOrLessIsFound) {
  for (const std::int64_t more : {-1, 1}) {
    ModelCase altered = GetParam();
    for (std::int64_t& window : altered.config.layer_windows) window += more;
    EXPECT_GT(worst_difference(*study::make_model(Context::cpu(), altered), altered), 10 * kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WindowAgainstTransformers, testing::ValuesIn(recorded_cases_with_a_window()),
                         test_name);

TEST(AgainstTransformersGreedy, TwoHundredTokensAreTheSame) {
  const auto model = bundled_model(Context::cpu());
  ASSERT_GE(reference().at("greedy").size(), 3U);
  for (const json& expected : reference().at("greedy")) {
    const std::vector<std::int32_t> tokens = expected.at("tokens");
    ASSERT_EQ(tokens.size(), 200U);
    std::printf("smallest lead of the likeliest token over the next: %.2e\n",
                expected.at("smallest_lead").get<double>());
    const std::vector<std::int32_t> prompt = expected.at("prompt");
    EXPECT_EQ(plain_generate(*model, prompt, {.max_tokens = 200}).tokens, tokens);
  }
}

}  // namespace
}  // namespace reprofuse::model
