// Where an answer ends, and what generate() refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/support.hpp"
#include "model/embedded_model.hpp"

namespace reprofuse::model {
namespace {

using Tokens = std::vector<std::int32_t>;

class GenerateLimits : public testing::Test {
 protected:
  std::string error_of(const Tokens& prompt, const GenerateOptions& options) {
    return checkpoint::error_of([&] { answer(*model_, prompt, options); });
  }

  static constexpr std::int64_t kContext = 64;
  GoldenAnswer golden_ = golden_answer();  // a prompt of 43 tokens
  std::unique_ptr<Model> model_ = embedded_model(Context::cpu(), kContext);
};

TEST_F(GenerateLimits, AStopTokenEndsTheAnswerAndIsNoPartOfIt) {
  const GenerateResult result = answer(*model_, golden_.prompt, at_most(20, {9999, golden_.tokens[7]}));
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_EQ(finish_reason_name(result.finish), "stop");
  const auto end = std::find(golden_.tokens.begin(), golden_.tokens.end(), golden_.tokens[7]);
  EXPECT_EQ(result.tokens, Tokens(golden_.tokens.begin(), end));
  EXPECT_EQ(result.steps, static_cast<std::int64_t>(result.tokens.size()) + 1);
}

TEST_F(GenerateLimits, TheLongestAnswerIsMaxTokens) {
  for (const std::int64_t most : {1, 2, 20}) {
    const GenerateResult result = answer(*model_, golden_.prompt, at_most(most));
    EXPECT_EQ(result.tokens, Tokens(golden_.tokens.begin(), golden_.tokens.begin() + most));
    EXPECT_EQ(finish_reason_name(result.finish), "length");
    EXPECT_EQ(result.steps, most);
  }
}

TEST_F(GenerateLimits, AFullContextEndsTheAnswer) {
  const GenerateResult result = answer(*model_, golden_.prompt, at_most(1000));
  EXPECT_EQ(result.finish, FinishReason::kLength);
  EXPECT_EQ(static_cast<std::int64_t>(golden_.prompt.size() + result.tokens.size()), kContext);
}

TEST_F(GenerateLimits, TheCallerCanStopAnAnswerAndSeesEveryToken) {
  KvCache cache(model_->context(), model_->config(), 1);
  Runner runner(*model_, cache, {.rows = 64, .sequences = 1, .logit_rows = 1});
  Tokens seen;
  const GenerateResult result = generate(runner, cache, golden_.prompt, at_most(20), [&](std::int32_t token) {
    seen.push_back(token);
    return seen.size() < 5;
  });
  EXPECT_EQ(seen, Tokens(golden_.tokens.begin(), golden_.tokens.begin() + 5));
  EXPECT_EQ(result.tokens, seen);
  EXPECT_EQ(cache.free_pages(), 1) << "the pages came back";
}

TEST_F(GenerateLimits, BadRequestsAreErrorsWithTheValue) {
  EXPECT_EQ(error_of({}, {}), "the prompt has no tokens");
  EXPECT_EQ(error_of(Tokens(64, 5), {}), "a prompt of 64 tokens leaves no room in a context of 64");
  EXPECT_EQ(error_of({5, 5, 1024}, {}), "token 1024 at position 2 is outside the vocabulary of 1024");
  EXPECT_EQ(error_of({5, -1}, {}), "token -1 at position 1 is outside the vocabulary of 1024");
  EXPECT_EQ(error_of({5}, at_most(0)), "max_tokens = 0 is less than 1");
  GenerateOptions cold;
  cold.sampling.temperature = -1.0F;
  EXPECT_EQ(error_of({5}, cold), "temperature = -1 is not a finite number of at least 0");
}

TEST_F(GenerateLimits, ACacheThatIsTooSmallIsAnErrorAndGivesItsPagesBack) {
  const auto roomy = embedded_model(Context::cpu(), 512);
  KvCache cache(roomy->context(), roomy->config(), 1);
  Runner runner(*roomy, cache, {.rows = 64, .sequences = 1, .logit_rows = 1});
  EXPECT_EQ(checkpoint::error_of([&] { generate(runner, cache, golden_.prompt, at_most(100)); }),
            "the cache is full: 64 tokens are in it, 0 pages of 64 are free");
  EXPECT_EQ(cache.free_pages(), 1);
}

}  // namespace
}  // namespace reprofuse::model
