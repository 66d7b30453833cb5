// What an engine answers, request by request, with all that a request may want beside the answer.
#include "engine/engine.hpp"

#include <gtest/gtest.h>

#include "engine/engine_case.hpp"
#include "numerics/float_ops.hpp"
#include "support/messages.hpp"

namespace reprofuse::engine {
namespace {

using EngineTest = BundledModelTest;

TEST_F(EngineTest, GivesTheGoldenAnswer) {
  const model::GoldenAnswer golden = model::golden_answer();
  const Received received = answer_alone(*model_, golden_request());
  EXPECT_EQ(received.tokens, golden.tokens);
  EXPECT_EQ(received.end->digest, golden.digest);
  Request chained = golden_request();
  chained.digest = DigestKind::kChain1;
  EXPECT_EQ(answer_alone(*model_, chained).end->digest, golden.chain_digest);
  EXPECT_EQ(received.end->finish_reason, FinishReason::kStop);
  EXPECT_EQ(received.end->stop_token, golden.stop_tokens[0]);
  EXPECT_EQ(received.text, bundled_tokenizer() ? bundled_tokenizer()->decode(golden.tokens) : "");
}

TEST_F(EngineTest, RunningDigestsEndInTheLast) {
  Request request = golden_request();
  request.stop_tokens.clear();
  request.max_tokens = 5;
  const Received received = answer_alone(*model_, request);
  ASSERT_EQ(received.details.size(), 5U);
  EXPECT_EQ(received.end->finish_reason, FinishReason::kLength);
  EXPECT_EQ(received.details.back().digest, received.end->digest);
  EXPECT_NE(received.details.front().digest, received.end->digest);
  request.max_tokens = 1;
  EXPECT_EQ(answer_alone(*model_, request).end->digest, received.details.front().digest);
}

TEST_F(EngineTest, AKnownAnswerSavesPassesAndChangesNothing) {
  const auto passes_and_answer = [&](const Request& request) {
    Engine engine(*model_, {.kv_pages = 8, .max_rows = 512, .max_prompt_logit_rows = 512}, bundled_tokenizer());
    engine.add(0, request);
    const Received received = run_until_idle(engine)[{0, 0}];
    return std::pair(engine.stats().passes, received);
  };
  Request penalised = sampled_request(20, 60, 3);
  penalised.sampling.repetition_penalty = 1.3F;
  for (Request request : {golden_request(), sampled_request(20, 60, 3), penalised}) {
    const Received alone = answer_alone(*model_, request);
    request.known_answer = alone.tokens;
    const auto [passes, received] = passes_and_answer(request);
    EXPECT_EQ(received.tokens, alone.tokens);
    EXPECT_EQ(received.end->digest, alone.end->digest);
    EXPECT_EQ(received.end->logits_root, alone.end->logits_root);
    EXPECT_EQ(passes, 2) << "the prompt, and all that is known";
    // Where it is wrong, the answer is still the right one, and takes more passes.
    request.known_answer[5] ^= 1;
    const auto [more, corrected] = passes_and_answer(request);
    EXPECT_EQ(corrected.end->digest, alone.end->digest);
    EXPECT_GT(more, 2);
  }
}

TEST_F(EngineTest, AForcedAnswerIsTakenWhateverTheSamplerWouldChoose) {
  const Received sampled = answer_alone(*model_, sampled_request(20, 40, 3));
  Request forced = sampled_request(20, 40, 3);
  forced.sampling = {};  // greedy
  EXPECT_NE(answer_alone(*model_, forced).tokens, sampled.tokens);
  forced.known_answer = sampled.tokens;
  forced.force_known_answer = true;
  const Received received = answer_alone(*model_, forced);
  EXPECT_EQ(received.tokens, sampled.tokens);
  EXPECT_EQ(received.end->digest, sampled.end->digest) << "the same tokens have the same logits";
  forced.known_answer[7] ^= 1;
  EXPECT_NE(answer_alone(*model_, forced).end->digest, sampled.end->digest);
  forced.known_answer = {-1};
  EXPECT_TRUE(contains(error_of([&] { answer_alone(*model_, forced); }), "token -1 of the known answer"));
}

TEST_F(EngineTest, ChoiceNumberIIsTheAnswerOfSeedPlusI) {
  Request request = sampled_request(90, 12, 5);
  request.choices = 4;
  Engine engine(*model_, {.kv_pages = 32}, bundled_tokenizer());
  engine.add(7, request);
  Answered answered = run_until_idle(engine);
  ASSERT_EQ(answered.size(), 4U);
  for (int choice = 0; choice < 4; ++choice) {
    Request single = sampled_request(90, 12, 5);
    single.sampling.seed = 5 + static_cast<std::uint64_t>(choice);
    EXPECT_EQ((answered[{7, choice}].end->digest), answer_alone(*model_, single).end->digest) << choice;
    EXPECT_EQ((answered[{7, choice}].cached_prompt_tokens), choice == 0 ? 0 : 64) << "the first page of the prompt";
  }
  EXPECT_NE((answered[{7, 0}].tokens), (answered[{7, 1}].tokens));
}

TEST_F(EngineTest, LikelihoodsOfAPromptAreThoseOfAnswering) {
  // An answer with likelihoods, then the same text as a prompt.
  Request request = golden_request();
  request.logprobs = 3;
  const Received answer = answer_alone(*model_, request);
  Request scored;
  scored.prompt = request.prompt;
  scored.prompt.insert(scored.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  scored.max_tokens = 0;
  scored.digest = DigestKind::kTree1;
  scored.prompt_logprobs = 3;
  for (const std::int64_t rows : {1, 3, 512}) {
    const Received received =
        answer_alone(*model_, scored, {.kv_pages = 8, .max_batch = 1, .max_rows = rows, .prefix_cache = true});
    ASSERT_EQ(received.prompt.size(), scored.prompt.size());
    EXPECT_FALSE(received.prompt[0].likelihood.has_value());
    EXPECT_TRUE(received.tokens.empty());
    EXPECT_EQ(received.end->finish_reason, FinishReason::kLength);
    EXPECT_EQ(received.end->digest, "") << "without a token there is no row to chain";
    for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
      const Likelihood& expected = *answer.details[i].likelihood;
      const Likelihood& given = *received.prompt[request.prompt.size() + i].likelihood;
      EXPECT_EQ(float_bits(given.logprob), float_bits(expected.logprob)) << i;
      EXPECT_EQ(given.rank, 1) << "it was greedy";
      ASSERT_EQ(given.top.size(), 3U);
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(given.top[k].id, expected.top[k].id);
        EXPECT_EQ(float_bits(given.top[k].logprob), float_bits(expected.top[k].logprob));
      }
    }
  }
}

TEST_F(EngineTest, AStopStringEndsTheTextWhereverItLies) {
  if (!bundled_tokenizer()) GTEST_SKIP() << "this build has no tokenizer";
  const Received whole = answer_alone(*model_, golden_request());
  for (std::size_t at = 1; at + 3 < whole.text.size(); at += 4) {
    Request request = golden_request();
    request.stop_strings = {"never in the text", whole.text.substr(at, 3)};
    const std::size_t expected = whole.text.find(request.stop_strings[1]);
    Received received = answer_alone(*model_, request);
    EXPECT_EQ(received.text, whole.text.substr(0, expected));
    EXPECT_EQ(received.end->finish_reason, FinishReason::kStop);
    EXPECT_EQ(received.end->stop_string, request.stop_strings[1]);
    request.keep_stop_string = true;
    EXPECT_EQ(answer_alone(*model_, request).text, whole.text.substr(0, expected + 3));
  }
}

TEST_F(EngineTest, ACancelledRequestHasNoMoreUpdatesAndItsPagesComeBack) {
  Engine engine(*model_, {.kv_pages = 16, .prefix_cache = false}, bundled_tokenizer());
  Request many = sampled_request(100, 50, 1);
  many.choices = 3;
  engine.add(1, many);
  engine.add(2, sampled_request(100, 50, 2));
  Answered answered;
  for (int i = 0; i < 4; ++i) step(engine, answered);
  engine.cancel(1);
  engine.cancel(99);
  EXPECT_EQ(engine.stats().running, 1);
  answered.clear();
  const Answered rest = run_until_idle(engine);
  EXPECT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest.begin()->first.first, 2U);
  EXPECT_EQ(engine.stats().pages_in_use, 0);
}

TEST_F(EngineTest, WithoutRoomForAllTheLastComersArePreemptedAndAnswerTheSame) {
  Engine engine(*model_, {.kv_pages = 5, .max_batch = 4, .max_rows = 64, .prefix_cache = false}, bundled_tokenizer());
  for (RequestId id = 0; id < 4; ++id) engine.add(id, sampled_request(60, 60, id));
  Answered answered = run_until_idle(engine);
  EXPECT_GT(engine.stats().preemptions, 0);
  EXPECT_EQ(engine.stats().pages_in_use, 0);
  for (RequestId id = 0; id < 4; ++id)
    EXPECT_EQ((answered[{id, 0}].end->digest), answer_alone(*model_, sampled_request(60, 60, id)).end->digest) << id;
}

TEST_F(EngineTest, TheMoreUrgentGoesFirstAndPreemptsTheLessUrgent) {
  Engine engine(*model_, {.kv_pages = 16, .max_batch = 1}, bundled_tokenizer());
  engine.add(0, sampled_request(20, 30, 0));
  Answered answered;
  step(engine, answered);
  Request urgent = sampled_request(20, 3, 1);
  urgent.priority = -1;
  engine.add(1, sampled_request(20, 3, 2));
  engine.add(2, urgent);
  while (!answered[{2, 0}].end) step(engine, answered);
  EXPECT_EQ(engine.stats().preemptions, 1);
  EXPECT_FALSE((answered[{0, 0}].end.has_value()));
  EXPECT_TRUE((answered[{1, 0}].tokens.empty()));
  while (!engine.idle()) step(engine, answered);
  EXPECT_EQ((answered[{0, 0}].end->digest), answer_alone(*model_, sampled_request(20, 30, 0)).end->digest);
}

TEST_F(EngineTest, NoJobIsPreemptedWhenThatWouldNotMakeRoom) {
  Engine engine(*model_, {.kv_pages = 6, .max_batch = 4}, bundled_tokenizer());
  const auto with_priority = [](std::int64_t prompt, std::int64_t tokens, int priority) {
    Request request = sampled_request(prompt, tokens, static_cast<std::uint64_t>(prompt));
    request.priority = priority;
    return request;
  };
  engine.add(0, with_priority(150, 40, 0));  // three pages
  engine.add(1, with_priority(20, 40, 1));   // one page
  Answered answered;
  for (int i = 0; i < 3; ++i) step(engine, answered);
  engine.add(2, with_priority(300, 10, 0));  // five pages: not even without the less urgent one
  for (int i = 0; i < 3; ++i) step(engine, answered);
  EXPECT_EQ(engine.stats().preemptions, 0);
  EXPECT_EQ(engine.stats().running, 2);
  while (!engine.idle()) step(engine, answered);
  EXPECT_EQ(answered.size(), 3U);
}

// The answer stands before the prompt in their order, or behind it.
TEST_F(EngineTest, ALongPromptDoesNotHoldUpTheOthers) {
  for (const int priority : {0, 1}) {
    Engine engine(*model_, {.kv_pages = 32, .max_batch = 3, .max_rows = 16}, bundled_tokenizer());
    Request answering = sampled_request(8, 40, 0);
    answering.priority = priority;
    engine.add(0, answering);
    Answered answered;
    step(engine, answered);
    engine.add(1, sampled_request(400, 1, 1));
    for (int i = 0; i < 10; ++i) step(engine, answered);
    EXPECT_EQ((answered[{0, 0}].tokens.size()), 11U) << "one token with every pass, priority " << priority;
    EXPECT_TRUE((answered[{1, 0}].tokens.empty()));
  }
}

TEST_F(EngineTest, AStartThatWasComputedBeforeIsNotComputedAgain) {
  Engine engine(*model_, {.kv_pages = 16, .page_size = 16}, bundled_tokenizer());
  engine.add(0, sampled_request(100, 4, 3));
  Answered first = run_until_idle(engine);
  const std::int64_t passes = engine.stats().passes;
  engine.add(1, sampled_request(100, 4, 3));
  Answered second = run_until_idle(engine);
  EXPECT_EQ((second[{1, 0}].cached_prompt_tokens), 96);
  EXPECT_EQ((second[{1, 0}].end->digest), (first[{0, 0}].end->digest));
  EXPECT_EQ(engine.stats().passes, passes + 4);
  // One token earlier, and all pages after it are others.
  Request other = sampled_request(100, 4, 3);
  other.prompt[20] += 1;
  engine.add(2, other);
  EXPECT_EQ((run_until_idle(engine)[{2, 0}].cached_prompt_tokens), 16);
}

TEST_F(EngineTest, GuessesSavePassesAndChangeNothing) {
  Request request = golden_request();
  request.prompt.insert(request.prompt.end(), request.prompt.begin(), request.prompt.end());
  const Received alone = answer_alone(*model_, request);
  Engine engine(*model_, {.kv_pages = 8, .speculation = 6}, bundled_tokenizer());
  engine.add(0, request);
  Answered answered = run_until_idle(engine);
  EXPECT_EQ((answered[{0, 0}].end->digest), alone.end->digest);
  EXPECT_EQ((answered[{0, 0}].text), alone.text);
  EXPECT_GT(engine.stats().accepted_tokens, 0);
  EXPECT_EQ(engine.stats().passes + engine.stats().accepted_tokens, static_cast<std::int64_t>(alone.tokens.size()) + 1);
}

TEST_F(EngineTest, RequestsThatMakeNoSenseAreRefusedWithTheReason) {
  Engine engine(*model_, {.kv_pages = 2}, std::nullopt);
  const auto refusal = [&](auto change) {
    Request request = sampled_request(10, 10, 0);
    change(request);
    return error_of([&] { engine.add(0, request); });
  };
  EXPECT_EQ(refusal([](Request& r) { r.prompt.clear(); }), "the prompt has no tokens");
  EXPECT_EQ(refusal([](Request& r) { r.prompt[4] = 1024; }),
            "token 1024 at position 4 of the prompt is outside the vocabulary of 1024");
  EXPECT_EQ(refusal([](Request& r) { r.max_tokens = 119; }),
            "a prompt of 10 tokens and an answer of 119 do not fit into a context of 128");
  EXPECT_EQ(refusal([](Request& r) { r.max_tokens = INT64_MAX; }),
            "a prompt of 10 tokens and an answer of 9223372036854775807 do not fit into a context of 128");
  EXPECT_EQ(refusal([](Request& r) { r.max_tokens = -1; }), "max_tokens = -1 is below 0");
  EXPECT_EQ(refusal([](Request& r) { r.choices = 0; }), "0 choices are outside 1 to 128");
  EXPECT_EQ(refusal([](Request& r) { r.logprobs = 21; }), "logprobs = 21 is outside 0 to 20");
  EXPECT_EQ(refusal([](Request& r) { r.prompt_logprobs = -2; }), "prompt_logprobs = -2 is outside 0 to 20");
  EXPECT_EQ(refusal([](Request& r) { r.stop_strings = {"a"}; }),
            "stop strings need a tokenizer, and this model has none");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.top_p = 2; }), "top_p = 2 is outside 0 to 1");
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(error_of([&] { const Engine none(*model_, {}, std::nullopt); }),
            "a KV cache of 0 pages; an engine needs at least one");
  EXPECT_EQ(error_of([&] { const Engine few(*model_, {.kv_pages = 1, .max_batch = 4, .max_rows = 3}, std::nullopt); }),
            "max_rows = 3 is below max_batch = 4: each answer needs a row");
  const EngineOptions limits{.kv_pages = 1, .max_batch = kMaxBatch, .max_rows = kMaxPassRows};
  const auto with = [&](auto change) {
    EngineOptions options = limits;
    change(options);
    return error_of([&] { const Engine beyond(*model_, options, std::nullopt); });
  };
  EXPECT_EQ(with([](EngineOptions& o) { ++o.max_batch; }), "max_batch = 4097 is outside 1 to 4096");
  EXPECT_EQ(with([](EngineOptions& o) { ++o.max_rows; }), "max_rows = 65536 is outside 1 to 65535");
  EXPECT_EQ(with([](EngineOptions& o) { o.speculation = kMaxSpeculation + 1; }), "speculation = 65 is outside 0 to 64");
  EXPECT_EQ(with([](EngineOptions& o) { o.page_size = 2 * kMaxPageSize; }),
            "page_size = 131072 is outside 16 to 65536");
  EXPECT_EQ(with([](EngineOptions& o) { o.page_size = 48; }), "page_size = 48 is not a power of two");
}

}  // namespace
}  // namespace reprofuse::engine
