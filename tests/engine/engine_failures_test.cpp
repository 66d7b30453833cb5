// What a request that fails costs those beside it, counted in passes, and that it fails alike in any schedule.
#include <gtest/gtest.h>

#include "engine/engine_case.hpp"
#include "support/altered_source.hpp"
#include "support/messages.hpp"

namespace reprofuse::engine {
namespace {

class EngineFailures : public BundledModelTest {};

constexpr std::int32_t kPoison = 900;

// A model in which one token makes values that are not finite.
std::unique_ptr<model::Model> poisoned_model() {
  auto source = std::make_shared<model::AlteredSource>(bundled_files().source());
  const std::int64_t hidden = source->config().hidden_size;
  source->change("model.embed_tokens.weight", [&](std::span<float> values) {
    for (std::int64_t i = 0; i < hidden; ++i) values[static_cast<std::size_t>(kPoison * hidden + i)] = 3e19F;
  });
  return std::make_unique<model::Model>(Context::cpu(), source, 512);
}

Request request_without_poison(RequestId id) {
  Request request = sampled_request(30, 6, id);
  request.sampling.temperature = 0;
  for (std::int32_t& token : request.prompt) token %= kPoison;
  return request;
}

// Requests whose answers alone do not come upon the poison either.
std::vector<Request> requests_without_poison(const model::Model& poisoned, std::size_t count) {
  std::vector<Request> healthy;
  for (RequestId id = 0; healthy.size() < count; ++id) {
    const Request request = request_without_poison(id);
    if (answer_alone(poisoned, request).end->finish_reason == FinishReason::kLength) healthy.push_back(request);
  }
  return healthy;
}

TEST_F(EngineFailures, AValueThatIsNotFiniteFailsItsOwnRequestAloneAndInAnyScheduleAlike) {
  const auto poisoned = poisoned_model();
  const std::vector<Request> healthy = requests_without_poison(*poisoned, 2);
  Request bad = request_without_poison(1);
  bad.prompt[13] = kPoison;
  bad.choices = 3;
  for (const std::int64_t rows : {4, 7, 512}) {
    Engine engine(*poisoned, {.kv_pages = 32, .max_batch = 4, .max_rows = rows}, bundled_tokenizer());
    engine.add(0, healthy[0]);
    engine.add(1, bad);
    engine.add(2, healthy[1]);
    Answered answered = run_until_idle(engine);
    for (int choice = 0; choice < 3; ++choice) {
      ASSERT_TRUE((answered[{1, choice}].end.has_value())) << choice;
      EXPECT_EQ((answered[{1, choice}].end->finish_reason), FinishReason::kError);
      EXPECT_TRUE((answered[{1, choice}].end->at_fault));
      EXPECT_EQ((answered[{1, choice}].end->error_code), ErrorCode::kNonFinite);
      EXPECT_EQ(
          (answered[{1, choice}].end->error),
          "at token 13 of the text: norm 'model.layers.0.input_layernorm.weight' row 0: the sum of squares is not "
          "finite");
    }
    for (const RequestId id : {0, 2}) {
      EXPECT_EQ((answered[{id, 0}].end->error), "");
      EXPECT_EQ((answered[{id, 0}].end->digest), answer_alone(*poisoned, healthy[id / 2]).end->digest) << id;
    }
    EXPECT_EQ(engine.stats().pages_in_use, 0);
  }
}

// One pass fails, one is run again without the token that failed, and that one alone: whoever else is in the batch.
TEST_F(EngineFailures, ARequestThatFailsCostsTheOthersOnePass) {
  const auto poisoned = poisoned_model();
  const std::vector<Request> healthy = requests_without_poison(*poisoned, 6);
  const EngineOptions options{.kv_pages = 64, .max_batch = 8, .prefix_cache = false};
  const auto run = [&](int failing, Answered& answered) {
    Engine engine(*poisoned, options, bundled_tokenizer());
    for (RequestId id = 0; id < 6; ++id) engine.add(id, healthy[id]);
    step(engine, answered);
    for (RequestId id = 100; id < 100 + static_cast<RequestId>(failing); ++id) {
      Request bad = request_without_poison(id);
      bad.prompt[21] = kPoison;
      engine.add(id, bad);
    }
    while (!engine.idle()) step(engine, answered);
    return engine.stats().passes;
  };
  Answered without;
  Answered with;
  const std::int64_t passes = run(0, without);
  EXPECT_LE(run(2, with), passes + 2 * 2);
  EXPECT_EQ(passes, 6);
  for (RequestId id = 0; id < 6; ++id) EXPECT_EQ((with[{id, 0}].end->digest), (without[{id, 0}].end->digest)) << id;
  EXPECT_NE((with[{100, 0}].end->error).find("at token 21 of the text: norm"), std::string::npos);
  EXPECT_NE((with[{101, 0}].end->error).find("at token 21 of the text: norm"), std::string::npos);
}

// A client's requests fail again and again: each step of the others has one pass that fails, and one with the token
// that failed alone. Requests that nobody in particular sends have no such bound.
TEST_F(EngineFailures, AClientWhoseRequestsFailCostsTheOthersOnePassAtATime) {
  const auto poisoned = poisoned_model();
  const std::vector<Request> healthy = requests_without_poison(*poisoned, 4);
  for (const char* client : {"failing", ""}) {
    Engine engine(*poisoned, {.kv_pages = 64, .max_batch = 16, .prefix_cache = false}, bundled_tokenizer());
    Answered answered;
    for (RequestId id = 0; id < 4; ++id) engine.add(id, healthy[id]);
    for (RequestId id = 100; id < 112; ++id) {
      Request bad = request_without_poison(id);
      bad.prompt[3 + id % 5] = kPoison;
      bad.client = client;
      engine.add(id, bad);
    }
    std::int64_t max_passes = 0;
    while (!engine.idle()) {
      const std::int64_t before = engine.stats().passes;
      step(engine, answered);
      max_passes = std::max(max_passes, engine.stats().passes - before);
    }
    EXPECT_EQ(max_passes <= 3, *client != '\0') << max_passes;
    for (RequestId id = 0; id < 4; ++id)
      EXPECT_EQ((answered[{id, 0}].end->digest), answer_alone(*poisoned, healthy[id]).end->digest) << id;
    for (RequestId id = 100; id < 112; ++id)
      EXPECT_EQ((answered[{id, 0}].end->finish_reason), FinishReason::kError) << id;
  }
}

constexpr float kLogitScale = 0x1p+122F;

std::unique_ptr<model::Model> model_of_large_logits() {
  auto source = std::make_shared<model::AlteredSource>(bundled_files().source());
  source->change("model.norm.weight", [&](std::span<float> values) {
    for (float& value : values) value *= kLogitScale;
  });
  return std::make_unique<model::Model>(Context::cpu(), source, 512);
}

TEST_F(EngineFailures, APenaltyThatOverflowsFailsItsAnswerAndCostsNoPass) {
  const auto large = model_of_large_logits();
  Engine engine(*large, {.kv_pages = 32, .max_batch = 8}, bundled_tokenizer());
  Request bad = request_without_poison(7);
  bad.sampling.repetition_penalty = 0.01F;
  for (RequestId id = 0; id < 4; ++id) engine.add(id, request_without_poison(id));
  engine.add(7, bad);
  Answered answered = run_until_idle(engine);
  EXPECT_EQ(engine.stats().passes, 6);
  EXPECT_EQ((answered[{7, 0}].end->finish_reason), FinishReason::kError);
  EXPECT_NE((answered[{7, 0}].end->error).find("is not finite after the repetition penalty"), std::string::npos);
  const Received alone = answer_alone(*large, bad);
  EXPECT_EQ((answered[{7, 0}].end->error), alone.end->error);
  EXPECT_EQ((answered[{7, 0}].tokens), alone.tokens);
  for (RequestId id = 0; id < 4; ++id) EXPECT_EQ((answered[{id, 0}].tokens.size()), 6U);
}

// After some texts a penalty makes logits overflow: after a wrong guess, which is no text of anybody, and not after the
// text itself.
TEST_F(EngineFailures, AGuessThatFailsDoesNotFailTheAnswer) {
  const auto large = model_of_large_logits();
  Request request;
  request.prompt = {681, 260, 427, 661, 388, 681, 260, 427, 661, 388, 681,
                    260, 427, 661, 388, 668, 681, 260, 427, 661, 388};
  request.max_tokens = 60;
  request.digest = DigestKind::kTree1;
  request.sampling = {.temperature = 3e37F, .repetition_penalty = 0.14F, .seed = 2};
  const Received alone = answer_alone(*large, request);
  ASSERT_EQ(alone.end->finish_reason, FinishReason::kLength) << alone.end->error;
  const Received guessed = answer_alone(*large, request, {.kv_pages = 8, .speculation = 8});
  EXPECT_EQ(guessed.end->error, "");
  EXPECT_EQ(guessed.end->digest, alone.end->digest);
}

TEST_F(EngineFailures, WhatMayMakeLogitsOverflowIsRefusedBeforeItJoinsABatch) {
  Engine engine(*model_, {.kv_pages = 2}, std::nullopt);
  for (const float penalty : {3.4e38F, 101.0F, 0.0099F, 1e-45F}) {
    Request request = sampled_request(10, 10, 0);
    request.sampling.repetition_penalty = penalty;
    EXPECT_EQ(error_of([&] { engine.add(0, request); }),
              fmt::format("repetition_penalty = {} is outside 0.01 to 100", penalty));
  }
  for (const float penalty : {100.0F, 0.01F}) {
    Request request = sampled_request(10, 10, 0);
    request.sampling.repetition_penalty = penalty;
    EXPECT_EQ(error_of([&] { engine.check(request); }), "");
  }
}

}  // namespace
}  // namespace reprofuse::engine
