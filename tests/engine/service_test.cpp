// An engine behind a queue: requests from many threads, answers as streams, refusals, and an orderly end.
#include "engine/service.hpp"

#include <gtest/gtest.h>

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
    return std::make_unique<Service>(std::make_unique<Engine>(*model_, engine, embedded_tokenizer()), options);
  }
  static Received wait_for(Answers& answers) {
    Received received;
    while (!answers.finished())
      if (const std::optional<Update> update = answers.next(kPatience)) received.add(*update);
    return received;
  }
  std::unique_ptr<model::Model> model_ = model::embedded_model(Context::cpu());
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

TEST_F(ServiceTest, SeveralRequestsAreTakenTogetherOrNotAtAll) {
  const auto service = this->service({.max_queue = 3});
  const auto bell = std::make_shared<AnswerBell>();
  const auto several = [](std::size_t count) {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < count; ++i) requests.push_back(sampled_request(10, 20, i));
    return requests;
  };
  EXPECT_EQ(error_of([&] { service->submit_all(several(4)); }),
            "4 answers at once, and at most 3 are ever under way (max-queue); ask for fewer at a time");
  std::vector<Request> with_a_bad_one = several(2);
  with_a_bad_one[1].prompt.clear();
  EXPECT_THROW(service->submit_all(with_a_bad_one), Error);
  EXPECT_TRUE(service->wait_until_idle(0ms)) << "nothing of it was taken";
  const auto answers = service->submit_all(several(2), bell);
  EXPECT_THROW(service->submit_all(several(2)), Refused);
  EXPECT_TRUE(bell->wait(kPatience));
  for (std::size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(wait_for(*answers[i]).end->digest, answer_alone(*model_, sampled_request(10, 20, i)).end->digest);
  bell->wait(0ms);
  EXPECT_FALSE(bell->wait(10ms)) << "nothing comes any more";
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
