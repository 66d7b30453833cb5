// What one pass takes, and what it refuses before it computes anything.
#include "model/runner.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "study/seeded/models.hpp"
#include "support/messages.hpp"

namespace reprofuse::model {
namespace {

using Tokens = std::vector<std::int32_t>;

class RunnerLimitsTest : public testing::Test {
 protected:
  // Three sequences with room for their tokens.
  RunnerLimitsTest() {
    for (Sequence* sequence : {&a_, &b_, &c_}) EXPECT_TRUE(sequence->reserve(16));
  }
  std::string error_of_pass(const std::vector<TokenChunk>& chunks) {
    return error_of([&] { runner_.run(chunks); });
  }

  study::ModelCase spec_ = study::model_cases().front();
  std::unique_ptr<Model> model_ = std::make_unique<Model>(
      Context::cpu(), std::make_shared<study::RandomSource>(spec_.config, spec_.dtype, spec_.seed), 20);
  KvCache cache_{model_->context(), spec_.config, 3, 16};
  Runner runner_{*model_, cache_, {.rows = 8, .sequences = 2, .logit_rows = 3}};
  Sequence a_{cache_}, b_{cache_}, c_{cache_};
  Tokens five_ = {1, 2, 3, 4, 5};
};

TEST_F(RunnerLimitsTest, LimitsAreErrorsWithBothNumbers) {
  const Tokens nine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const Tokens one = {1};
  EXPECT_EQ(error_of_pass({{&a_, nine}}), "a pass of 9 tokens; the limit is 8");
  EXPECT_EQ(error_of_pass({{&a_, five_}, {&b_, five_}}), "a pass of 10 tokens; the limit is 8");
  EXPECT_EQ(error_of_pass({{&a_, one}, {&b_, one}, {&c_, one}}), "a pass over 3 sequences; the limit is 2");
  EXPECT_EQ(error_of_pass({{&a_, five_, Logits::kAll}}), "logits of 5 rows in one pass; the limit is 3");
  EXPECT_EQ(error_of_pass({{&a_, {}}}), "a chunk has no tokens");
  EXPECT_EQ(error_of_pass({{&a_, Tokens{7, 311}}}), "token 311 at position 1 is outside the vocabulary of 311");
}

TEST_F(RunnerLimitsTest, ARefusedPassLeavesTheSequenceAsItWas) {
  EXPECT_EQ(error_of_pass({{&a_, five_}}), "");
  EXPECT_NE(error_of_pass({{&a_, five_, Logits::kAll}}), "");
  EXPECT_EQ(a_.length(), 5);
  EXPECT_EQ(error_of_pass({{&a_, five_}}), "");
  EXPECT_EQ(a_.length(), 10);
}

TEST_F(RunnerLimitsTest, ATextLongerThanTheContextIsAnError) {
  c_.clear();
  ASSERT_TRUE(a_.reserve(20));
  for (int pass = 0; pass < 4; ++pass) EXPECT_EQ(error_of_pass({{&a_, five_}}), "");
  EXPECT_EQ(error_of_pass({{&a_, Tokens{1}}}), "a sequence of 21 tokens; the limit is 20");
}

TEST_F(RunnerLimitsTest, TokensWithoutPagesAreABugOfTheCaller) {
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(error_of_pass({{&a_, five_}}), "");
  EXPECT_EQ(error_of_pass({{&a_, Tokens{1, 2}}}), "internal error: a sequence has no pages for its next tokens");
}

TEST_F(RunnerLimitsTest, ASequenceIsInAPassOnceAndInTheCacheOfTheRunner) {
  const Tokens one = {1};
  EXPECT_EQ(error_of_pass({{&a_, one}, {&a_, one}}), "a sequence is in a pass twice");
  KvCache other_cache(model_->context(), spec_.config, 1, 16);
  Sequence elsewhere(other_cache);
  ASSERT_TRUE(elsewhere.reserve(1));
  EXPECT_EQ(error_of_pass({{&elsewhere, one}}), "a sequence of a pass lives in another cache");
}

TEST_F(RunnerLimitsTest, LogitsComeInTheOrderOfThePartsAndOnlyWhereAskedFor) {
  const std::vector<TokenChunk> chunks = {{&b_, five_, Logits::kNone}, {&a_, {five_.data(), 3}, Logits::kAll}};
  const ConstMatrix logits = runner_.run(chunks);
  EXPECT_EQ(logits.rows, 3);
  EXPECT_EQ(logits.cols, 311);
  const std::vector<float> together = runner_.host_logits();
  runner_.run(std::vector<TokenChunk>{{&c_, {five_.data(), 3}, Logits::kAll}});
  EXPECT_EQ(runner_.host_logits(), together);
}

TEST_F(RunnerLimitsTest, RoomForNothingIsAnError) {
  EXPECT_EQ(error_of([&] { Runner(*model_, cache_, {.rows = 8, .sequences = 0, .logit_rows = 1}); }),
            "a pass needs room for a row, a sequence and a row of logits; got 8, 0 and 1");
  EXPECT_EQ(error_of([&] { Runner(*model_, cache_, {.rows = -1, .sequences = 1, .logit_rows = 1}); }),
            "a pass needs room for a row, a sequence and a row of logits; got -1, 1 and 1");
}

TEST_F(RunnerLimitsTest, AContextBeyondTheModelsIsAnError) {
  const auto source = std::make_shared<study::RandomSource>(spec_.config, spec_.dtype, spec_.seed);
  EXPECT_EQ(error_of([&] { Model(Context::cpu(), source, 2049); }),
            "a context of 2049 tokens is outside 1 to 2048, which the model declares");
  EXPECT_EQ(error_of([&] { Model(Context::cpu(), source, -1); }),
            "a context of -1 tokens is outside 1 to 2048, which the model declares");
}

}  // namespace
}  // namespace reprofuse::model
