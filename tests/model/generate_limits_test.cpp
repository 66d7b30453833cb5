// Where an answer ends, and what generate() refuses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/embedded_model.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::model {
namespace {

using Tokens = std::vector<std::int32_t>;

class GenerateLimits : public testing::Test {
 protected:
  std::string error_of(const Tokens& prompt, const GenerateOptions& options) {
    try {
      answer(*model_, prompt, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      return error.what();
    }
    return "no error";
  }

  static constexpr std::int64_t kContext = 64;
  GoldenAnswer golden_ = golden_answer();  // a prompt of 43 tokens
  std::unique_ptr<Model> model_ = embedded_model(Context::cpu(), kContext);
};

TEST_F(GenerateLimits, AStopTokenEndsTheAnswerAndIsNoPartOfIt) {
  const GenerateResult result =
      answer(*model_, golden_.prompt, {.max_tokens = 20, .stop_tokens = {9999, golden_.tokens[7]}});
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_EQ(finish_reason_name(result.finish), "stop");
  const auto end = std::find(golden_.tokens.begin(), golden_.tokens.end(), golden_.tokens[7]);
  EXPECT_EQ(result.tokens, Tokens(golden_.tokens.begin(), end));
  EXPECT_EQ(result.steps, static_cast<std::int64_t>(result.tokens.size()) + 1);
}

TEST_F(GenerateLimits, TheLongestAnswerIsMaxTokens) {
  for (const std::int64_t most : {1, 2, 20}) {
    const GenerateResult result = answer(*model_, golden_.prompt, {.max_tokens = most});
    EXPECT_EQ(result.tokens, Tokens(golden_.tokens.begin(), golden_.tokens.begin() + most));
    EXPECT_EQ(finish_reason_name(result.finish), "length");
    EXPECT_EQ(result.steps, most);
  }
}

TEST_F(GenerateLimits, AFullContextEndsTheAnswer) {
  const GenerateResult result = answer(*model_, golden_.prompt, {.max_tokens = 1000});
  EXPECT_EQ(result.finish, FinishReason::kLength);
  EXPECT_EQ(static_cast<std::int64_t>(golden_.prompt.size() + result.tokens.size()), kContext);
}

TEST_F(GenerateLimits, TheCallerCanStopAnAnswerAndSeesEveryToken) {
  KvCache cache(model_->context(), model_->config(), 1);
  Runner runner(*model_, cache, {.rows = 64, .sequences = 1, .logit_rows = 1});
  Tokens seen;
  const GenerateResult result = generate(runner, cache, golden_.prompt, {.max_tokens = 20}, [&](std::int32_t token) {
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
  EXPECT_EQ(error_of({5}, {.max_tokens = 0}), "max_tokens = 0 is less than 1");
  EXPECT_EQ(error_of({5}, {.sampling = {.temperature = -1.0F}}),
            "temperature = -1 is not a finite number of at least 0");
}

TEST_F(GenerateLimits, ACacheThatIsTooSmallIsAnErrorAndGivesItsPagesBack) {
  const auto roomy = embedded_model(Context::cpu(), 512);
  KvCache cache(roomy->context(), roomy->config(), 1);
  Runner runner(*roomy, cache, {.rows = 64, .sequences = 1, .logit_rows = 1});
  try {
    generate(runner, cache, golden_.prompt, {.max_tokens = 100});
    ADD_FAILURE() << "143 tokens went into a cache of 64";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the cache is full: 64 tokens are in it, 0 pages of 64 are free");
  }
  EXPECT_EQ(cache.free_pages(), 1);
}

}  // namespace
}  // namespace reprofuse::model
