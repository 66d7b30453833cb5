// How long anyone waits for others, counted in passes, and what a request that fails costs those beside it.
#include <gtest/gtest.h>

#include "engine/engine_case.hpp"
#include "support/altered_source.hpp"
#include "support/messages.hpp"

namespace reprofuse::engine {
namespace {

class EngineFairness : public BundledModelTest {
 protected:
  static void expect_answer_alone(const Received& received, const Request& request) {
    ASSERT_TRUE(received.end.has_value());
    EXPECT_EQ(received.end->digest, answer_alone(*model_, request).end->digest);
  }
  // Steps until the request has a first token.
  static std::int64_t passes_to_first_token(Engine& engine, RequestId id, Answered& answered) {
    std::int64_t passes = 0;
    while (answered[{id, 0}].tokens.empty()) {
      step(engine, answered);
      ++passes;
    }
    return passes;
  }
};

TEST_F(EngineFairness, APromptTakesItsPassesAtMostWhateverPromptsComeBeforeIt) {
  for (const std::int64_t long_prompts : {1, 3, 7}) {
    const EngineOptions options{.kv_pages = 80, .max_batch = 8, .max_rows = 48, .prefix_cache = false};
    Engine engine(*model_, options, bundled_tokenizer());
    Answered answered;
    for (RequestId id = 0; id < static_cast<RequestId>(long_prompts); ++id) engine.add(id, sampled_request(500, 1, id));
    step(engine, answered);
    const Request question = sampled_request(19, 3, 99);
    engine.add(99, question);
    EXPECT_LE(passes_to_first_token(engine, 99, answered), (19 + 5) / 6) << long_prompts;  // 48 / 8 rows of each pass
    EXPECT_TRUE((answered[{0, 0}].tokens.empty())) << "the long prompt is long";
    while (!answered[{99, 0}].end) step(engine, answered);
    expect_answer_alone(answered[{99, 0}], question);
  }
}

TEST_F(EngineFairness, BesideOneLongPromptAShortOneTakesOnePass) {
  Engine engine(*model_, {.kv_pages = 64, .max_batch = 64, .max_rows = 512}, bundled_tokenizer());
  Answered answered;
  engine.add(0, sampled_request(500, 1, 0));
  engine.add(1, sampled_request(100, 1, 1));
  EXPECT_EQ(passes_to_first_token(engine, 1, answered), 1);
  EXPECT_TRUE((answered[{0, 0}].tokens.empty()));
}

TEST_F(EngineFairness, LogprobsOfOnePromptDoNotHoldUpThoseOfAnother) {
  const EngineOptions options{
      .kv_pages = 64, .max_batch = 4, .max_rows = 512, .max_prompt_logit_rows = 16, .prefix_cache = false};
  Engine engine(*model_, options, bundled_tokenizer());
  Answered answered;
  for (const RequestId id : {0, 1, 2}) {
    Request request = sampled_request(id == 2 ? 20 : 400, 2, id);
    request.prompt_logprobs = 0;
    engine.add(id, request);
  }
  EXPECT_LE(passes_to_first_token(engine, 2, answered), 20 / (16 / 4) + 1);
  EXPECT_TRUE((answered[{1, 0}].tokens.empty()));
  while (!engine.idle()) step(engine, answered);
  EXPECT_EQ((answered[{1, 0}].prompt.size()), 400U);
}

// Each pass brings another request that is more urgent than all before.
TEST_F(EngineFairness, AFloodOfUrgentRequestsPassesNobodyForMorePassesThanAllowed) {
  constexpr std::int64_t kMaxWaitedPasses = 20;
  for (const int step_of_priority : {0, 1}) {
    Engine engine(*model_, {.kv_pages = 16, .max_batch = 2, .max_waited_passes = kMaxWaitedPasses},
                  bundled_tokenizer());
    Answered answered;
    RequestId next = 1;
    const auto flood = [&] {
      Request urgent = sampled_request(5, 4, next);
      urgent.priority = -1 - step_of_priority * static_cast<int>(next);
      engine.add(next++, urgent);
    };
    for (int i = 0; i < 4; ++i) flood();
    const Request patient = sampled_request(10, 12, 7);
    engine.add(1000, patient);
    std::int64_t passes = 0;
    while (!answered[{1000, 0}].end && passes < 200) {
      flood();
      step(engine, answered);
      ++passes;
    }
    EXPECT_GT(passes, kMaxWaitedPasses) << "the urgent ones went first until then";
    // Then the urgent ones that came before it, of which two run at a time, and its own twelve passes.
    EXPECT_LE(passes, kMaxWaitedPasses + 2 * 4 + 12 + 1) << step_of_priority;
    expect_answer_alone(answered[{1000, 0}], patient);
  }
}

Request request_of(const std::string& client, std::int64_t max_tokens, std::uint64_t seed) {
  Request request = sampled_request(10, max_tokens, seed);
  request.client = client;
  return request;
}

TEST_F(EngineFairness, AClientWithManyRequestsHoldsUpItsOwnAndNotThoseOfOthers) {
  for (const bool is_own : {false, true}) {
    Engine engine(*model_, {.kv_pages = 64, .max_batch = 4}, bundled_tokenizer());
    Answered answered;
    for (RequestId id = 0; id < 12; ++id) {
      Request many = request_of("many", 40, id);
      many.choices = 4;
      engine.add(id, many);
    }
    for (int i = 0; i < 10; ++i) step(engine, answered);
    const Request one = request_of(is_own ? "many" : "one", 12, 99);
    engine.add(99, one);
    const std::int64_t passes = passes_to_first_token(engine, 99, answered);
    EXPECT_TRUE(is_own ? passes > 11 * 40 : passes == 1) << passes;
    while (!answered[{99, 0}].end) step(engine, answered);
    expect_answer_alone(answered[{99, 0}], one);
    while (!engine.idle()) step(engine, answered);
    EXPECT_EQ(engine.stats().preemptions, is_own ? 0 : 1);
    for (RequestId id = 0; id < 12; ++id) expect_answer_alone(answered[{id, 0}], request_of("many", 40, id));
  }
}

// Priorities order what one client asks; between clients they decide only about places that are nobody's share.
TEST_F(EngineFairness, AFloodOfUrgentRequestsTakesNoMoreThanItsClientsShare) {
  for (const bool is_own : {false, true}) {
    Engine engine(*model_, {.kv_pages = 64, .max_batch = 4}, bundled_tokenizer());
    Answered answered;
    RequestId next = 0;
    const auto flood = [&] {
      Request urgent = request_of("urgent", 40, next);
      urgent.priority = -1 - static_cast<int>(next);
      engine.add(next++, urgent);
    };
    for (int i = 0; i < 8; ++i) flood();
    for (int i = 0; i < 3; ++i) step(engine, answered);
    const Request plain = request_of(is_own ? "urgent" : "plain", 12, 99);
    for (const RequestId id : {1000, 1001, 1002}) engine.add(id, plain);
    std::int64_t passes = 0;
    while (!(answered[{1000, 0}].end && answered[{1001, 0}].end) && passes < 60) {
      flood();
      step(engine, answered);
      ++passes;
    }
    EXPECT_TRUE(is_own ? passes == 60 : passes == 12) << passes;
    EXPECT_TRUE((answered[{1002, 0}].tokens.empty())) << "two of four places are its share";
    if (!is_own) expect_answer_alone(answered[{1000, 0}], plain);
  }
}

// A prompt of many passes, none of which the prefix cache keeps.
TEST_F(EngineFairness, EverMoreUrgentRequestsOfOneClientDoNotMakeAnotherBeginAnew) {
  Engine engine(*model_, {.kv_pages = 64, .max_batch = 2, .max_rows = 64, .prefix_cache = false}, bundled_tokenizer());
  Answered answered;
  RequestId next = 0;
  const auto flood = [&] {
    Request urgent = request_of("urgent", 40, next);
    urgent.priority = -1 - static_cast<int>(next);
    engine.add(next++, urgent);
  };
  flood();
  step(engine, answered);
  Request patient = sampled_request(480, 3, 99);
  patient.client = "patient";
  engine.add(1000, patient);
  std::int64_t passes = 0;
  while (!answered[{1000, 0}].end && passes < 100) {
    flood();
    step(engine, answered);
    ++passes;
  }
  EXPECT_LE(passes, 480 / (64 / 2) + 1 + 3);
  EXPECT_GT(engine.stats().preemptions, 0) << "of the urgent ones, for one that is more so";
  expect_answer_alone(answered[{1000, 0}], patient);
}

TEST_F(EngineFairness, WithMoreClientsThanPlacesEachHasItsTurn) {
  for (const std::int64_t places : {1, 2}) {
    Engine engine(*model_, {.kv_pages = 64, .max_batch = places}, bundled_tokenizer());
    Answered answered;
    for (RequestId id = 0; id < 80; ++id) engine.add(id, request_of(id % 2 == 0 ? "a" : "b", 4, id));
    for (int i = 0; i < 3; ++i) step(engine, answered);
    const Request one = request_of("one", 4, 99);
    engine.add(1000, one);
    EXPECT_LE(passes_to_first_token(engine, 1000, answered), 2 * 4 + 1) << places;
    while (!answered[{1000, 0}].end) step(engine, answered);
    expect_answer_alone(answered[{1000, 0}], one);
  }
}

// The places of a pass are shared by clients, whatever each of them asks for, and whoever came first.
TEST_F(EngineFairness, ClientsHaveEqualPartsOfThePassesWhenAllHaveEnoughToAsk) {
  Engine engine(*model_, {.kv_pages = 64, .max_batch = 6}, bundled_tokenizer());
  Answered answered;
  RequestId next = 0;
  std::map<RequestId, std::string> client_of;
  const auto add = [&](const std::string& client, int requests, std::int64_t max_tokens) {
    for (int i = 0; i < requests; ++i, ++next) {
      client_of[next] = client;
      engine.add(next, request_of(client, max_tokens, next));
    }
  };
  add("first", 90, 30);
  for (int i = 0; i < 5; ++i) step(engine, answered);
  answered.clear();
  add("second", 90, 10);
  add("third", 10, 90);
  for (int i = 0; i < 100; ++i) step(engine, answered);
  std::map<std::string, std::size_t> tokens;
  for (const auto& [key, received] : answered) tokens[client_of[key.first]] += received.tokens.size();
  for (const char* client : {"first", "second", "third"}) {
    EXPECT_GE(tokens[client], 190U) << client;
    EXPECT_LE(tokens[client], 210U) << client;
  }
}

TEST_F(EngineFairness, ClientsHaveEqualPartsOfTheRowsWhateverPromptsEachHas) {
  for (const bool is_own : {false, true}) {
    const EngineOptions options{.kv_pages = 80, .max_batch = 8, .max_rows = 48, .prefix_cache = false};
    Engine engine(*model_, options, bundled_tokenizer());
    Answered answered;
    for (RequestId id = 0; id < 7; ++id) {
      Request many = sampled_request(500, 1, id);
      many.client = "many";
      engine.add(id, many);
    }
    step(engine, answered);
    Request one = sampled_request(100, 3, 99);
    one.client = is_own ? "many" : "one";
    engine.add(99, one);
    const std::int64_t passes = passes_to_first_token(engine, 99, answered);
    const std::int64_t with_half_the_rows_of_two_clients = (100 + 11) / 12;
    EXPECT_EQ(passes <= with_half_the_rows_of_two_clients, !is_own) << passes;
    while (!answered[{99, 0}].end) step(engine, answered);
    expect_answer_alone(answered[{99, 0}], one);
  }
}

TEST_F(EngineFairness, PrefixesAreSharedWithinASaltAndNotBeyond) {
  Engine engine(*model_, {.kv_pages = 64, .page_size = 16}, bundled_tokenizer());
  RequestId next = 0;
  const Request unsalted = sampled_request(100, 4, 3);
  const auto cached_tokens = [&](const std::string& salt) {
    Request request = unsalted;
    request.cache_salt = salt;
    engine.add(next, request);
    const Received received = run_until_idle(engine)[{next++, 0}];
    expect_answer_alone(received, unsalted);
    return received.cached_prompt_tokens;
  };
  const std::string page_as_salt(reinterpret_cast<const char*>(unsalted.prompt.data()), 16 * sizeof(std::int32_t));
  for (const std::string& salt : {std::string(), std::string("a"), std::string("b"), page_as_salt}) {
    EXPECT_EQ(cached_tokens(salt), 0) << salt;
    EXPECT_EQ(cached_tokens(salt), 96) << salt;
  }
  EXPECT_EQ(cached_tokens(""), 96);
}

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

TEST_F(EngineFairness, AValueThatIsNotFiniteFailsItsOwnRequestAloneAndInAnyScheduleAlike) {
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
TEST_F(EngineFairness, ARequestThatFailsCostsTheOthersOnePass) {
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
TEST_F(EngineFairness, AClientWhoseRequestsFailCostsTheOthersOnePassAtATime) {
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
    std::int64_t most = 0;
    while (!engine.idle()) {
      const std::int64_t before = engine.stats().passes;
      step(engine, answered);
      most = std::max(most, engine.stats().passes - before);
    }
    EXPECT_EQ(most <= 3, *client != '\0') << most;
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

TEST_F(EngineFairness, APenaltyThatOverflowsFailsItsAnswerAndCostsNoPass) {
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
TEST_F(EngineFairness, AGuessThatFailsDoesNotFailTheAnswer) {
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

TEST_F(EngineFairness, WhatMayMakeLogitsOverflowIsRefusedBeforeItJoinsABatch) {
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
