// The answers of an engine are those of the plain loop, bit for bit, whatever it caches, guesses or preempts.
#include <gtest/gtest.h>

#include "engine/engine_case.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::engine {
namespace {

constexpr std::int32_t kPage = 16;

class EngineOracle : public BundledModelTest {
 protected:
  static void expect_plain(const Received& received, const Request& request, const std::string& about = "") {
    const model::PlainAnswer plain = plain_answer(*model_, request);
    ASSERT_TRUE(received.end.has_value()) << about;
    EXPECT_EQ(received.tokens, plain.tokens) << about;
    EXPECT_EQ(received.end->digest, plain.digest) << about;
    EXPECT_EQ(received.end->finish_reason, plain.stopped ? FinishReason::kStop : FinishReason::kLength) << about;
  }
  // Of an engine that has answered others before.
  static Received answer(Engine& engine, const Request& request) {
    engine.add(next_id_, request);
    return run_until_idle(engine)[{next_id_++, 0}];
  }
  // The golden prompt twice: its first half says how the second may go on.
  static Request repetitive_request(std::uint64_t seed) {
    Request request = golden_request();
    request.prompt.insert(request.prompt.end(), request.prompt.begin(), request.prompt.end());
    request.max_tokens = 40;
    request.sampling.temperature = seed == 0 ? 0.0F : 1.5F;
    request.sampling.seed = seed;
    return request;
  }
  static inline RequestId next_id_ = 0;
};

std::vector<Request> mixed_requests() {
  std::vector<Request> requests = {golden_request(), sampled_request(75, 30, 1), sampled_request(32, 30, 2),
                                   sampled_request(32, 30, 2), sampled_request(9, 50, 3)};
  requests[1].sampling = {.temperature = 4.0F, .top_k = 40, .top_p = 0.9F, .min_p = 0.01F, .seed = 5};
  requests[2].sampling.repetition_penalty = 4.0F;
  requests[3].stop_tokens = {plain_answer(*model::bundled_model(Context::cpu()), requests[3]).tokens[7]};
  return requests;
}

TEST_F(EngineOracle, EveryScheduleGivesTheAnswersOfThePlainLoop) {
  const std::vector<Request> requests = mixed_requests();
  const EngineOptions schedules[] = {
      {.kv_pages = 64, .max_batch = 1, .prefix_cache = false},
      {.kv_pages = 64, .max_batch = 8, .max_rows = 8},
      {.kv_pages = 64, .page_size = kPage, .max_batch = 2, .max_rows = 33, .speculation = 4},
      {.kv_pages = 16, .page_size = kPage, .max_batch = 4, .max_rows = 512, .prefix_cache = false, .speculation = 2}};
  for (std::size_t i = 0; i < std::size(schedules); ++i) {
    Engine engine(*model_, schedules[i], bundled_tokenizer());
    for (std::size_t k = 0; k < requests.size(); ++k) engine.add(k, requests[k]);
    Answered answered = run_until_idle(engine);
    for (std::size_t k = 0; k < requests.size(); ++k)
      expect_plain(answered[{k, 0}], requests[k], fmt::format("schedule {}, request {}", i, k));
  }
}

// What the sampler keeps of texts with a penalty: through guesses, choices, preemption, and places that others take
// over.
TEST_F(EngineOracle, APenaltyIsForTheTokensOfItsOwnText) {
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    requests.push_back(repetitive_request(seed));
    requests.back().sampling.repetition_penalty = seed == 3 ? 1.0F : 1.2F;
    requests.back().sampling.seed *= 100;
    requests.back().max_tokens = 20 + 4 * static_cast<std::int64_t>(seed);
    requests.back().choices = seed == 4 ? 3 : 1;
    if (seed == 5) requests.back().prompt_logprobs = 0;
  }
  const EngineOptions schedules[] = {
      {.kv_pages = 64, .page_size = kPage, .max_batch = 3, .max_rows = 40, .speculation = 4},
      {.kv_pages = 28, .page_size = kPage, .max_batch = 8, .max_rows = 64, .speculation = 2}};
  std::int64_t preemptions = 0, accepted = 0, rejected = 0;
  for (const EngineOptions& schedule : schedules) {
    Engine engine(*model_, schedule, bundled_tokenizer());
    for (std::size_t k = 0; k < requests.size(); ++k) engine.add(k, requests[k]);
    Answered answered = run_until_idle(engine);
    for (std::size_t k = 0; k < requests.size(); ++k)
      for (int choice = 0; choice < requests[k].choices; ++choice) {
        Request alone = requests[k];
        alone.sampling.seed += static_cast<std::uint64_t>(choice);
        expect_plain(answered[{k, choice}], alone, fmt::format("request {}, choice {}", k, choice));
      }
    preemptions += engine.stats().preemptions;
    accepted += engine.stats().accepted_tokens;
    rejected += engine.stats().guessed_tokens - engine.stats().accepted_tokens;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(accepted, 0);
  EXPECT_GT(rejected, 0);
}

// The negative control: the comparison sees a step more, another seed and another token of the prompt.
TEST_F(EngineOracle, AnotherRequestHasAnotherPlainAnswer) {
  const Request request = sampled_request(32, 30, 2);
  const std::string digest = answer_alone(*model_, request).end->digest;
  ASSERT_EQ(plain_answer(*model_, request).digest, digest);
  Request longer = request, reseeded = request, other = request;
  longer.max_tokens += 1;
  reseeded.sampling.temperature = 4.0F;
  other.prompt[3] += 1;
  for (const Request& changed : {longer, reseeded, other}) EXPECT_NE(plain_answer(*model_, changed).digest, digest);
}

// The logits of a prompt's last token choose the first of the answer, so they are computed in any case.
TEST_F(EngineOracle, ThePageOfTheLastTokenOfAPromptIsNeverTakenFromTheCache) {
  Engine engine(*model_, {.kv_pages = 32, .page_size = kPage}, bundled_tokenizer());
  for (const std::int64_t size : {kPage, 2 * kPage, 3 * kPage}) {
    const Request request = sampled_request(size, 20, static_cast<std::uint64_t>(size));
    expect_plain(answer(engine, request), request);
    const Received again = answer(engine, request);
    EXPECT_EQ(again.cached_prompt_tokens, size - kPage);
    expect_plain(again, request);
  }
  Request choices = sampled_request(2 * kPage, 8, 99);
  choices.choices = 2;
  engine.add(next_id_, choices);
  Received second = run_until_idle(engine)[{next_id_++, 1}];
  EXPECT_EQ(second.cached_prompt_tokens, kPage);
  choices.sampling.seed += 1;
  expect_plain(second, choices);
}

TEST_F(EngineOracle, APageIsReusedOnlyAfterTheStartItWasComputedAfter) {
  Engine engine(*model_, {.kv_pages = 32, .page_size = kPage}, bundled_tokenizer());
  const Request one = sampled_request(2 * kPage + 1, 8, 1);
  const Request two = sampled_request(2 * kPage + 1, 8, 2);
  answer(engine, one);
  answer(engine, two);
  Request mixed = two;
  std::copy(one.prompt.begin() + kPage, one.prompt.end(), mixed.prompt.begin() + kPage);
  const Received received = answer(engine, mixed);
  EXPECT_EQ(received.cached_prompt_tokens, kPage) << "of the two pages, both of which are known";
  expect_plain(received, mixed);
}

TEST_F(EngineOracle, APageThatWasDroppedForAnotherTextIsComputedAgain) {
  Engine engine(*model_, {.kv_pages = 4, .page_size = kPage}, bundled_tokenizer());
  std::int64_t cached = 0;
  for (int round = 0; round < 2; ++round)
    for (const std::uint64_t seed : {1, 2, 2, 3}) {
      const Request request = sampled_request(45, 12, seed);
      const Received received = answer(engine, request);
      expect_plain(received, request, fmt::format("round {}, seed {}", round, seed));
      cached += received.cached_prompt_tokens;
    }
  EXPECT_EQ(cached, 2 * 2 * kPage) << "only the text that came twice in a row was still there";
}

TEST_F(EngineOracle, GuessesCountAsFarAsTheyAreRightAndNoFurther) {
  std::int64_t partly_right = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Request request = repetitive_request(seed);
    Engine engine(*model_, {.kv_pages = 8, .speculation = 5}, bundled_tokenizer());
    engine.add(0, request);
    Answered answered;
    while (!engine.idle()) {
      const EngineStats before = engine.stats();
      const std::size_t tokens = answered[{0, 0}].tokens.size();
      step(engine, answered);
      const Received& received = answered[{0, 0}];
      const auto accepted = static_cast<std::size_t>(engine.stats().accepted_tokens - before.accepted_tokens);
      const auto guessed = static_cast<std::size_t>(engine.stats().guessed_tokens - before.guessed_tokens);
      if (!received.end) {
        EXPECT_EQ(received.tokens.size() - tokens, accepted + 1) << "a pass chooses one beyond them";
      }
      partly_right += accepted > 0 && accepted < guessed ? 1 : 0;
    }
    expect_plain(answered[{0, 0}], request, fmt::format("seed {}", seed));
  }
  EXPECT_GT(partly_right, 0) << "the texts are too tame";
}

// The pages of an answer are those of its own tokens: keys and values of wrong guesses are written over first.
TEST_F(EngineOracle, WrongGuessesLeaveNothingInPagesThatAreKept) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Engine engine(*model_, {.kv_pages = 32, .page_size = kPage, .speculation = 7}, bundled_tokenizer());
    const Request request = repetitive_request(seed);
    const Received first = answer(engine, request);
    Request longer = request;
    longer.prompt.insert(longer.prompt.end(), first.tokens.begin(), first.tokens.end());
    const Received second = answer(engine, longer);
    const auto size = static_cast<std::int64_t>(longer.prompt.size());
    EXPECT_EQ(second.cached_prompt_tokens, (size - 1) / kPage * kPage);
    expect_plain(second, longer, fmt::format("seed {}", seed));
  }
}

TEST_F(EngineOracle, GuessesNeedNoRoomBeyondTheLastToken) {
  Request request = repetitive_request(0);
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  request.stop_tokens.clear();
  for (std::int64_t pages = prompt / kPage + 1; pages < prompt / kPage + 4; ++pages) {
    request.max_tokens = pages * kPage - prompt;
    Engine engine(*model_, {.kv_pages = pages, .page_size = kPage, .speculation = 8}, bundled_tokenizer());
    engine.add(0, request);
    Answered answered;
    for (int i = 0; i < 200 && !engine.idle(); ++i) step(engine, answered);
    expect_plain(answered[{0, 0}], request, fmt::format("{} pages", pages));
    EXPECT_EQ(engine.stats().preemptions, 0);
  }
}

TEST_F(EngineOracle, APreemptedJobGoesOnAtTheTokenWhereItWas) {
  for (const bool prefix_cache : {false, true})
    for (const std::int64_t prompt : {kPage - 1, kPage, kPage + 1}) {
      Engine engine(*model_, {.kv_pages = 5, .page_size = kPage, .max_batch = 4, .prefix_cache = prefix_cache},
                    bundled_tokenizer());
      for (RequestId id = 0; id < 3; ++id) engine.add(id, sampled_request(prompt, 40, id));
      Answered answered = run_until_idle(engine);
      EXPECT_GT(engine.stats().preemptions, 0);
      EXPECT_EQ(engine.stats().pages_in_use, 0);
      for (RequestId id = 0; id < 3; ++id)
        expect_plain(answered[{id, 0}], sampled_request(prompt, 40, id), fmt::format("prompt {}, id {}", prompt, id));
    }
}

TEST_F(EngineOracle, APromptThatIsPreemptedHasEachLogprobOnce) {
  Request scored = sampled_request(60, 5, 1);
  scored.prompt_logprobs = 2;
  const Received alone = answer_alone(*model_, scored);
  Request urgent = sampled_request(20, 3, 2);
  urgent.priority = -1;
  Engine engine(*model_, {.kv_pages = 32, .page_size = kPage, .max_batch = 1, .max_rows = 8}, bundled_tokenizer());
  engine.add(0, scored);
  Answered answered;
  for (int i = 0; i < 4; ++i) step(engine, answered);
  engine.add(1, urgent);
  while (!engine.idle()) step(engine, answered);
  EXPECT_EQ(engine.stats().preemptions, 1);
  expect_plain(answered[{0, 0}], scored);
  expect_plain(answered[{1, 0}], urgent);
  const std::vector<PromptToken>& prompt = answered[{0, 0}].prompt;
  ASSERT_EQ(prompt.size(), scored.prompt.size());
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    EXPECT_EQ(prompt[i].id, scored.prompt[i]) << i;
    EXPECT_EQ(float_bits(prompt[i].likelihood->logprob), float_bits(alone.prompt[i].likelihood->logprob)) << i;
  }
}

}  // namespace
}  // namespace reprofuse::engine
