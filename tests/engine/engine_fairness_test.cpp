// How long anyone waits for others, counted in passes.
#include <gtest/gtest.h>

#include "engine/engine_case.hpp"

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

// Priorities order what one client asks; between clients they decide only about places that are in nobody's quota.
TEST_F(EngineFairness, AFloodOfUrgentRequestsTakesNoMoreThanItsClientsQuota) {
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
    EXPECT_TRUE((answered[{1002, 0}].tokens.empty())) << "two of four places are its quota";
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
    // One row of each pass is each job's own; of half of the other 40, one of two clients has half.
    const std::int64_t with_equal_parts = (100 + 10) / 11;
    EXPECT_EQ(passes <= with_equal_parts, !is_own) << passes;
    while (!answered[{99, 0}].end) step(engine, answered);
    expect_answer_alone(answered[{99, 0}], one);
  }
}

TEST_F(EngineFairness, EveryPromptThatRunsHasARowOfEachPassHoweverManyRunBeforeIt) {
  const EngineOptions options{.kv_pages = 80, .max_batch = 8, .max_rows = 8, .prefix_cache = false, .speculation = 4};
  Engine engine(*model_, options, bundled_tokenizer());
  Answered answered;
  for (RequestId id = 0; id < 4; ++id) {
    Request long_one = sampled_request(100, 8, id);
    long_one.client = id == 0 ? "one" : "many";
    engine.add(id, long_one);
  }
  step(engine, answered);
  Request question = sampled_request(5, 3, 99);
  question.client = "many";
  engine.add(99, question);
  EXPECT_LE(passes_to_first_token(engine, 99, answered), 5);
  EXPECT_TRUE((answered[{1, 0}].tokens.empty())) << "the long prompts are long";
  while (!engine.idle()) step(engine, answered);
  expect_answer_alone(answered[{99, 0}], question);
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

}  // namespace
}  // namespace reprofuse::engine
