// An engine behind a queue: requests from many threads, answers as streams, refusals, and an orderly end.
#include "engine/service.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine_case.hpp"
#include "support/messages.hpp"

namespace reprofuse::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 120s;  // for what comes at once, unless the machine is busy

class ServiceTest : public testing::Test {
 protected:
  std::unique_ptr<Service> service(ServiceOptions options = {}, EngineOptions engine = {.kv_pages = 64}) {
    return std::make_unique<Service>(std::make_unique<Engine>(*model_, engine, bundled_tokenizer()), options);
  }
  static Received wait_for(Answers& answers) {
    Received received;
    while (!answers.finished())
      if (const std::optional<Update> update = answers.next(kPatience)) received.add(*update);
    return received;
  }
  std::unique_ptr<model::Model> model_ = model::bundled_model(Context::cpu());
};

TEST_F(ServiceTest, ManyThreadsGetTheAnswersTheyWouldGetAlone) {
  const auto service = this->service();
  std::vector<std::string> digests(8);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < digests.size(); ++i)
    clients.emplace_back([&, i] {
      const auto answers = service->submit(sampled_request(20 + static_cast<std::int64_t>(i), 10, i));
      digests[i] = wait_for(*answers).end->digest;
    });
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < digests.size(); ++i)
    EXPECT_EQ(digests[i], answer_alone(*model_, sampled_request(20 + static_cast<std::int64_t>(i), 10, i)).end->digest);
  EXPECT_TRUE(service->wait_until_idle(kPatience));
  EXPECT_EQ(service->stats().generated_tokens, 80);
}

TEST_F(ServiceTest, DroppingTheAnswersCancelsTheRequest) {
  const auto service = this->service();
  {
    const auto answers = service->submit(sampled_request(10, 500, 1));
    ASSERT_TRUE(answers->next(kPatience).has_value());
    EXPECT_FALSE(service->wait_until_idle(0ms));
  }
  EXPECT_TRUE(service->wait_until_idle(kPatience));
  for (int i = 0; i < kPatience / 5ms && service->stats().running > 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(service->stats().running, 0);
  EXPECT_EQ(service->stats().pages_in_use, 0);
  EXPECT_LT(service->stats().generated_tokens, 500);
}

TEST_F(ServiceTest, WhatItsOwnerKnowsEndsAllAnswersAndTakesNoMore) {
  const auto service = this->service();
  const auto answers = service->submit(sampled_request(10, 500, 1));
  ASSERT_TRUE(answers->next(kPatience).has_value());
  EXPECT_FALSE(service->failed());
  service->fail(std::make_exception_ptr(Error(ErrorCode::kDevice, "a rank is lost")));
  service->fail(std::make_exception_ptr(Error(ErrorCode::kDevice, "the first reason counts")));
  EXPECT_TRUE(service->failed());
  const Received received = wait_for(*answers);
  EXPECT_EQ(received.end->finish_reason, FinishReason::kError);
  EXPECT_EQ(received.end->error, "a rank is lost");
  EXPECT_EQ(received.end->error_code, ErrorCode::kDevice);
  EXPECT_FALSE(received.end->at_fault || received.end->by_memory || received.end->by_stop);
  try {
    service->submit(sampled_request(10, 5, 1));
    ADD_FAILURE() << "was taken";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.why(), Refusal::kStopped);
    EXPECT_EQ(refused.code(), ErrorCode::kDevice);
    EXPECT_STREQ(refused.what(), "the engine has failed: a rank is lost");
  }
}

TEST_F(ServiceTest, WhatCannotBeTakenIsRefusedWithTheReason) {
  const auto service = this->service({.max_queue = 2});
  const auto refusal_of = [&](const Request& request) -> std::optional<Refusal> {
    try {
      service->submit(request);
    } catch (const Refused& refused) {
      return refused.why();
    }
    return std::nullopt;
  };
  const auto first = service->submit(sampled_request(10, 400, 1));
  Request two = sampled_request(10, 400, 2);
  two.choices = 2;
  EXPECT_EQ(refusal_of(two), Refusal::kFull);
  Request three = two;
  three.choices = 3;
  EXPECT_EQ(refusal_of(three), Refusal::kNeverFits);
  const auto second = service->submit(sampled_request(10, 400, 3));
  EXPECT_EQ(refusal_of(sampled_request(10, 1, 4)), Refusal::kFull);
  service->stop_taking();
  EXPECT_EQ(refusal_of(sampled_request(10, 1, 4)), Refusal::kDraining);
  EXPECT_THROW(service->submit({}), Error) << "the request itself makes no sense";
  EXPECT_EQ(wait_for(*first).end->finish_reason, FinishReason::kLength) << "what is under way goes on";
  EXPECT_EQ(wait_for(*second).tokens.size(), 400U);
  EXPECT_TRUE(service->wait_until_idle(kPatience));
}

TEST_F(ServiceTest, AClientHasItsPartOfTheQueueAndOthersHaveTheRest) {
  const auto service =
      this->service({.max_queue = 100, .max_answers_per_client = 3, .max_tokens_per_client = 10 * (10 + 400)});
  const auto ask = [](const std::string& client, int choices, std::int64_t max_tokens) {
    Request request = sampled_request(10, max_tokens, 1);
    request.client = client;
    request.choices = choices;
    return request;
  };
  const auto refusal_of = [&](const Request& request) -> std::pair<std::optional<Refusal>, std::string> {
    try {
      service->submit(request);
    } catch (const Refused& refused) {
      return {refused.why(), refused.what()};
    }
    return {};
  };
  using Result = std::pair<std::optional<Refusal>, std::string>;
  const Result taken;
  auto two = service->submit(ask("a", 2, 400));
  EXPECT_EQ(refusal_of(ask("a", 2, 1)),
            Result(Refusal::kClientFull,
                   "this client has 2 answers under way, and with 2 more it would have more than 3 "
                   "(max_answers_per_client); try again later"));
  EXPECT_EQ(refusal_of(ask("a", 4, 1)),
            Result(Refusal::kNeverFits,
                   "4 answers at once, and one client never has more than 3 under way (max_answers_per_client); ask "
                   "for fewer at a time"));
  EXPECT_EQ(refusal_of(ask("b", 2, 1)), taken) << "others have their own part";
  EXPECT_EQ(refusal_of(ask("", 4, 1)), taken) << "nobody in particular has no such limit";
  EXPECT_EQ(refusal_of(ask("a", 1, 1)), taken);
  two.reset();
  EXPECT_EQ(refusal_of(ask("a", 2, 1)), taken) << "what was given up counts no more";
  wait_for(*service->submit(ask("a", 3, 2)));
  EXPECT_EQ(refusal_of(ask("a", 3, 1)), taken) << "nor what has ended";
}

TEST_F(ServiceTest, AFewClientsDoNotFillTheQueue) {
  const auto service = this->service({.max_queue = 16});
  std::vector<std::unique_ptr<Answers>> open;
  const auto is_taken = [&](const std::string& client, int choices) {
    Request request = sampled_request(10, 400, 1);
    request.client = client;
    request.choices = choices;
    try {
      open.push_back(service->submit(request));
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.why(), Refusal::kClientFull) << refused.what();
      return false;
    }
    return true;
  };
  EXPECT_TRUE(is_taken("a", 6)) << "alone";
  EXPECT_TRUE(is_taken("b", 5)) << "half of what the first leaves";
  EXPECT_FALSE(is_taken("b", 1));
  EXPECT_FALSE(is_taken("a", 1));
  EXPECT_TRUE(is_taken("c", 3));
  EXPECT_TRUE(is_taken("d", 1)) << "there is some for whoever comes next";
  open.erase(open.begin());
  EXPECT_TRUE(is_taken("b", 1)) << "what was given up counts no more";
}

TEST_F(ServiceTest, AClientHasTokensUnderWayUpToItsLimit) {
  const auto service = this->service({.max_tokens_per_client = 1000});
  Request request = sampled_request(10, 190, 1);
  request.client = "a";
  std::vector<std::unique_ptr<Answers>> all;
  for (int i = 0; i < 5; ++i) all.push_back(service->submit(request));
  EXPECT_EQ(error_of([&] { service->submit(request); }),
            "this client has 1000 tokens under way, and with 200 more it would have more than 1000 "
            "(max_tokens_per_client); try again later");
  request.choices = 6;
  EXPECT_EQ(error_of([&] { service->submit(request); }),
            "1200 tokens at once, and one client never has more than 1000 under way (max_tokens_per_client); ask for "
            "fewer at a time");
  request.choices = 1;
  all.pop_back();
  EXPECT_EQ(error_of([&] { service->submit(request); }), "");
}

TEST_F(ServiceTest, WithoutLimitsOfTheirOwnClientsLeaveAnEighthOfTheQueueToOthers) {
  const auto service = this->service({.max_queue = 64}, {.kv_pages = 64, .max_batch = 4});
  EXPECT_EQ(service->options().max_answers_per_client, 56);
  EXPECT_EQ(service->options().max_tokens_per_client, 4 * 4 * service->engine().max_positions());
  EXPECT_EQ(this->service({.max_queue = 1})->options().max_answers_per_client, 1);
}

TEST_F(ServiceTest, SeveralRequestsAreTakenTogetherOrNotAtAll) {
  const auto service = this->service({.max_queue = 3});
  const auto notifier = std::make_shared<AnswerNotifier>();
  std::atomic<int> calls = 0;
  notifier->set_callback([&] { ++calls; });
  const auto several = [](std::size_t count) {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < count; ++i) requests.push_back(sampled_request(10, 20, i));
    return requests;
  };
  EXPECT_EQ(error_of([&] { service->submit_all(several(4)); }),
            "4 answers at once, and at most 3 are ever under way (max_queue); ask for fewer at a time");
  std::vector<Request> with_a_bad_one = several(2);
  with_a_bad_one[1].prompt.clear();
  EXPECT_THROW(service->submit_all(with_a_bad_one), Error);
  EXPECT_TRUE(service->wait_until_idle(0ms)) << "nothing of it was taken";
  const auto answers = service->submit_all(several(2), notifier);
  EXPECT_THROW(service->submit_all(several(2)), Refused);
  for (std::size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(wait_for(*answers[i]).end->digest, answer_alone(*model_, sampled_request(10, 20, i)).end->digest);
  ASSERT_TRUE(service->wait_until_idle(kPatience));
  EXPECT_GE(calls, 2) << "each answer has an end";
  const int calls_of_answers = calls;
  EXPECT_TRUE(service->wait_until_idle(10ms));
  EXPECT_EQ(calls, calls_of_answers) << "nothing comes any more";
}

TEST_F(ServiceTest, ANotifierOfEndsCallsWhenAnAnswerEndsAndNotBefore) {
  const auto service = this->service();
  for (const bool only_ends : {true, false}) {
    const auto notifier = std::make_shared<AnswerNotifier>(only_ends);
    std::atomic<int> calls = 0;
    notifier->set_callback([&] { ++calls; });
    const auto answers = service->submit_all({sampled_request(10, 20, 1)}, notifier);
    EXPECT_EQ(wait_for(*answers[0]).tokens.size(), 20U);
    ASSERT_TRUE(service->wait_until_idle(kPatience));
    EXPECT_EQ(calls == 1, only_ends) << calls;
  }
}

TEST_F(ServiceTest, NextIsPatientAndNoLonger) {
  const auto service = this->service();
  const auto answers = service->submit(sampled_request(10, 1, 1));
  wait_for(*answers);
  EXPECT_TRUE(answers->finished());
  EXPECT_FALSE(answers->next(1h).has_value()) << "at once: nothing can come any more";
}

}  // namespace
}  // namespace reprofuse::engine
