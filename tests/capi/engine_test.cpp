// Answers through the C++ API and the C ABI: the golden ones, streams, cancelling, misuse, and many threads.
#include <atomic>
#include <chrono>
#include <thread>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(CppEngine, GivesTheGoldenAnswer) {
  const Engine engine(small_model(), {.max_batch = 2});
  const Completion answer = engine.generate(golden_request())[0];
  EXPECT_EQ(answer.digest, golden()["tree_digests"]["fma-1"]);
  EXPECT_EQ(answer.tokens, golden()["tokens"].get<std::vector<std::int32_t>>());
  EXPECT_EQ(answer.text, golden_text());
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
}

TEST(CEngine, GivesTheGoldenAnswerAfterAllElseIsDestroyed) {
  reprofuse_answers* answers = nullptr;
  const std::vector<std::int32_t> prompt = golden_prompt();
  {
    const CModel loaded;
    reprofuse_engine* engine = nullptr;
    ASSERT_EQ(reprofuse_engine_create(loaded.model, nullptr, &engine), REPROFUSE_OK) << reprofuse_last_error();
    reprofuse_request request = c_request(prompt);
    request.digest = REPROFUSE_DIGEST_TREE_1;
    ASSERT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_OK) << reprofuse_last_error();
    reprofuse_engine_destroy(engine);
  }
  const Collected all = collect(answers);
  reprofuse_answers_destroy(answers);
  EXPECT_EQ(all.digest, golden()["tree_digests"]["fma-1"]);
  EXPECT_EQ(all.text, golden_text());
  EXPECT_EQ(all.tokens, golden()["tokens"].get<std::vector<std::int32_t>>());
  EXPECT_EQ(all.finish_reason, REPROFUSE_FINISH_STOP);
  EXPECT_EQ(all.stop_token, small_model().checkpoint().stop_tokens()[0]);
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.error_status, REPROFUSE_OK);

  const Engine engine(small_model(), {.max_batch = 2});
  Answers same = engine.submit(golden_request());
  std::vector<LogitsRoot> roots;
  while (!same.finished()) {
    const auto update = same.next(seconds(60));
    ASSERT_TRUE(update.has_value());
    for (const AnswerToken& token : update->tokens) roots.push_back(token.logits_root);
    if (update->end) roots.push_back(update->end->logits_root);
  }
  EXPECT_EQ(all.logits_roots, roots) << "of every token, and of the stop token";
  EXPECT_NE(roots[0], roots[1]);
}

TEST(CppEngine, StopTokensThatAreGivenReplaceThoseOfTheCheckpoint) {
  const Engine engine(small_model(), {.max_batch = 2});
  Request request = golden_request();
  request.max_tokens = 5;
  request.stop_tokens.emplace();
  const Completion five = engine.generate(request)[0];
  EXPECT_EQ(five.tokens.size(), 5U);
  EXPECT_EQ(five.finish_reason, FinishReason::kLength);
  request.stop_tokens = {five.tokens[2]};
  EXPECT_EQ(engine.generate(request)[0].tokens.size(), 2U);
}

TEST(CppEngine, ChoicesAreThoseOfTheSeedsThatFollow) {
  const Engine engine(small_model(), {.max_batch = 4});
  Request request = golden_request();
  request.max_tokens = 8;
  request.sampling = {.temperature = 6, .seed = 40};
  request.choices = 2;
  const std::vector<Completion> both = engine.generate(request);
  ASSERT_EQ(both.size(), 2U);
  request.choices = 1;
  request.sampling.seed = 41;
  EXPECT_EQ(engine.generate(request)[0].digest, both[1].digest);
  EXPECT_NE(both[0].digest, both[1].digest);
}

TEST(CppEngine, LogProbabilitiesOfAPromptAreThoseOfItsAnswering) {
  const Engine engine(small_model(), {.max_batch = 2});
  Request request = golden_request();
  request.max_tokens = 4;
  request.logprobs = 2;
  const Completion answer = engine.generate(request)[0];
  ASSERT_EQ(answer.likelihoods.size(), 4U);
  Request scored;
  scored.prompt = request.prompt;
  scored.prompt.insert(scored.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  scored.max_tokens = 0;
  scored.prompt_logprobs = 0;
  const std::vector<PromptToken> prompt = engine.generate(scored)[0].prompt;
  ASSERT_EQ(prompt.size(), scored.prompt.size());
  EXPECT_FALSE(prompt[0].likelihood.has_value());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(prompt[request.prompt.size() + i].likelihood->logprob, answer.likelihoods[i].logprob);
    EXPECT_EQ(answer.likelihoods[i].top.size(), 2U);
  }
}

TEST(CEngine, TellsLogProbabilitiesAndDigestsByToken) {
  const CModel loaded;
  reprofuse_engine* engine = nullptr;
  ASSERT_EQ(reprofuse_engine_create(loaded.model, nullptr, &engine), REPROFUSE_OK);
  const std::vector<std::int32_t> prompt = golden_prompt();
  reprofuse_request request = c_request(prompt);
  request.max_tokens = 1;
  request.digest = 3;
  reprofuse_answers* none = nullptr;
  EXPECT_EQ(reprofuse_engine_submit(engine, &request, &none), REPROFUSE_INVALID_ARGUMENT);
  request.digest = REPROFUSE_DIGEST_TREE_1;
  request.logprobs = 3;
  request.prompt_logprobs = 0;
  reprofuse_answers* answers = nullptr;
  ASSERT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_OK) << reprofuse_last_error();
  reprofuse_update update;
  std::size_t prompt_tokens = 0, tokens = 0;
  do {
    ASSERT_EQ(reprofuse_answers_next(answers, 60000, &update, sizeof update), REPROFUSE_OK);
    for (std::size_t i = 0; i < update.prompt_count; ++i, ++prompt_tokens) {
      EXPECT_EQ(update.prompt[i].id, prompt[prompt_tokens]);
      EXPECT_EQ(update.prompt[i].has_logprob, prompt_tokens == 0 ? 0 : 1);
    }
    for (std::size_t i = 0; i < update.token_count; ++i, ++tokens) {
      const reprofuse_token& token = update.tokens[i];
      EXPECT_EQ(token.id, golden()["tokens"][0].get<int>());
      EXPECT_EQ(token.rank, 1);
      ASSERT_EQ(token.top_count, 3U);
      EXPECT_EQ(token.top[0].logprob, token.logprob);
      EXPECT_EQ(std::string(token.digest).size(), std::string("tree-1:").size() + 64);
    }
  } while (update.kind != REPROFUSE_NEXT_FINISHED);
  EXPECT_EQ(prompt_tokens, prompt.size());
  EXPECT_EQ(tokens, 1U);
  reprofuse_engine_stats stats;
  ASSERT_EQ(reprofuse_engine_get_stats(engine, &stats, sizeof stats), REPROFUSE_OK);
  EXPECT_EQ(stats.generated_tokens, 1);
  EXPECT_EQ(stats.struct_size, sizeof stats);
  reprofuse_answers_destroy(answers);
  reprofuse_engine_destroy(engine);
}

TEST(CEngine, ACancelledRequestIsFinishedAndItsPagesComeBack) {
  const CModel loaded;
  reprofuse_engine* engine = nullptr;
  ASSERT_EQ(reprofuse_engine_create(loaded.model, nullptr, &engine), REPROFUSE_OK);
  const std::vector<std::int32_t> prompt = golden_prompt();
  reprofuse_request request = c_request(prompt);
  request.max_tokens = 200;
  const std::int32_t none = 0;
  request.stop_tokens = &none;  // an empty list: nothing ends it
  request.stop_token_count = 0;
  reprofuse_answers* answers = nullptr;
  ASSERT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_OK) << reprofuse_last_error();
  reprofuse_update update;
  do ASSERT_EQ(reprofuse_answers_next(answers, 60000, &update, sizeof update), REPROFUSE_OK);
  while (update.kind == REPROFUSE_NEXT_NOTHING);
  EXPECT_EQ(update.finish_reason, REPROFUSE_FINISH_NONE);
  ASSERT_EQ(reprofuse_answers_cancel(answers), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_answers_next(answers, 60000, &update, sizeof update), REPROFUSE_OK);
  EXPECT_EQ(update.kind, REPROFUSE_NEXT_FINISHED);
  reprofuse_engine_stats stats;
  do {
    std::this_thread::sleep_for(milliseconds(5));
    ASSERT_EQ(reprofuse_engine_get_stats(engine, &stats, sizeof stats), REPROFUSE_OK);
  } while (stats.running > 0);
  EXPECT_LT(stats.generated_tokens, 200);
  reprofuse_answers_destroy(answers);
  reprofuse_engine_destroy(engine);
}

TEST(CppEngine, ATimeoutWithoutAnUpdateIsNoEnd) {
  const Engine engine(small_model(), {.max_batch = 1});
  Answers answers = engine.submit(golden_request());
  while (!answers.next(milliseconds(0))) EXPECT_FALSE(answers.finished());
  answers.cancel();
  EXPECT_TRUE(answers.finished());
  EXPECT_FALSE(answers.next(milliseconds::max()).has_value());
}

TEST(CppEngine, AQueueThatIsFullRefuses) {
  const Engine engine(small_model(), {.max_batch = 1, .max_queue = 1});
  const Answers held = engine.submit(golden_request());
  EXPECT_NE(thrown(ErrorCode::kBusy, [&] { (void)engine.submit(golden_request()); }).find("at most 1"),
            std::string::npos);
  Request two = golden_request();
  two.choices = 2;
  EXPECT_NE(thrown(ErrorCode::kInvalidArgument, [&] { (void)engine.submit(two); }).find("at most 1"), std::string::npos)
      << "which no patience makes fit";
}

TEST(CppEngine, ManyThreadsGetTheAnswersThatEachGetsAlone) {
  const Engine engine(small_model(), {.max_batch = 8});
  const auto request_of = [](int thread, int round) {
    Request request = golden_request();
    request.prompt.resize(request.prompt.size() - static_cast<std::size_t>(thread));
    request.max_tokens = 4 + round;
    request.sampling = {.temperature = 0.9F, .seed = static_cast<std::uint64_t>(thread)};
    return request;
  };
  constexpr int kThreads = 6, kRounds = 3;
  std::string digests[kThreads][kRounds];
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        if (t == 0) {  // one drops what it asked for
          Answers dropped = engine.submit(request_of(t, round));
          (void)dropped.next(milliseconds(1));
        }
        digests[t][round] = engine.generate(request_of(t, round))[0].digest;
        (void)engine.stats();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t)
    for (int round = 0; round < kRounds; ++round)
      EXPECT_EQ(digests[t][round], engine.generate(request_of(t, round))[0].digest) << t << " " << round;
  EXPECT_NE(digests[0][0], digests[1][0]);
}

#if REPROFUSE_HAVE_TEXT
TEST(CEngine, ATextIsEncodedAsTheFolderSaysAndStopStringsEndIt) {
  const CModel loaded;
  reprofuse_engine* engine = nullptr;
  ASSERT_EQ(reprofuse_engine_create(loaded.model, nullptr, &engine), REPROFUSE_OK);
  const auto chat = small_model().checkpoint().chat_template().render({{"user", golden()["question"]}});
  reprofuse_request request = c_request({});
  request.prompt = nullptr;
  request.prompt_text = chat.c_str();
  const char* stops[] = {"36.", "never"};
  request.stop_strings = stops;
  request.stop_string_count = 2;
  reprofuse_answers* answers = nullptr;
  ASSERT_EQ(reprofuse_engine_submit(engine, &request, &answers), REPROFUSE_OK) << reprofuse_last_error();
  const Collected all = collect(answers);
  EXPECT_EQ(all.finish_reason, REPROFUSE_FINISH_STOP);
  EXPECT_EQ(all.text, golden_text().substr(0, golden_text().find("36.")));
  reprofuse_answers_destroy(answers);
  reprofuse_engine_destroy(engine);
}
#endif

}  // namespace
}  // namespace reprofuse::capi
