// The updates of a call with several prompts, and what is counted of them.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/answer_call.hpp"
#include "server/server_test_support.hpp"

namespace reprofuse::server {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<engine::Request> prompts(std::size_t count, std::int64_t max_tokens) {
  engine::Request request;
  request.prompt = {7, 8, 9};
  request.max_tokens = max_tokens;
  return std::vector<engine::Request>(count, request);
}

class StreamFeed : public testing::Test {
 protected:
  std::string counted(const std::string& reason) const {
    const std::string text = metrics_.text({});
    const std::string name = "finished_reason=\"" + reason + "\"} ";
    const std::size_t begin = text.find(name) + name.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  // One answer at a time, so that the others have none for as long as the first takes.
  std::shared_ptr<ServedModel> model_ = load_model([](ServedModelOptions& options) {
    options.engine.max_batch = 1;
    options.service.max_queue = 4;
  });
  engine::Service& service_ = model_->service();
  Metrics metrics_;
};

TEST_F(StreamFeed, WakesUpWhenNewsComes) {
  auto first = service_.submit(prompts(1, 900)[0]);
  ASSERT_TRUE(soon([&] { return service_.stats().running == 1; }));
  AnswerFeed feed(service_, prompts(3, 2), metrics_, Clock::now());
  const std::jthread leaves_soon([&] {
    std::this_thread::sleep_for(milliseconds(40));
    first.reset();  // the engine is free for the others
  });
  const auto begin = Clock::now();
  EXPECT_TRUE(feed.next(kPatience));
  EXPECT_LT(Clock::now() - begin, kPatience / 2);
}

TEST_F(StreamFeed, WithoutNewsItWaitsAsLongAsItMay) {
  const auto first = service_.submit(prompts(1, 900)[0]);
  ASSERT_TRUE(soon([&] { return service_.stats().running == 1; }));
  AnswerFeed feed(service_, prompts(3, 2), metrics_, Clock::now());
  const auto begin = Clock::now();
  const std::optional<PromptUpdate> next =
      feed.next(milliseconds(40));  // on a busy machine the first may have ended by now
  EXPECT_TRUE(next || Clock::now() - begin >= milliseconds(40)) << "it came back though nothing had come";
}

TEST_F(StreamFeed, TellsOfEveryPromptUntilAllHaveEnded) {
  AnswerFeed feed(service_, prompts(4, 3), metrics_, Clock::now());
  std::vector<std::size_t> tokens(4);
  std::size_t ended = 0;
  while (ended < tokens.size()) {
    const std::optional<PromptUpdate> next = feed.next(kPatience);
    ASSERT_TRUE(next);
    tokens.at(next->prompt) += next->update.tokens.size();
    ended += next->update.end ? 1 : 0;
  }
  EXPECT_EQ(tokens, std::vector<std::size_t>(4, 3));
  const auto begin = Clock::now();
  EXPECT_FALSE(feed.next(kPatience));
  EXPECT_LT(Clock::now() - begin, kPatience) << "nothing is left to wait for";
}

TEST_F(StreamFeed, ACallIsTakenAsAWholeOrNotAtAll) {
  const auto first = service_.submit(prompts(1, 900)[0]);
  EXPECT_THROW(AnswerFeed(service_, prompts(4, 2), metrics_, Clock::now()), engine::Refused);
  EXPECT_EQ(counted("abort"), "0") << "none of them had begun";
  EXPECT_NO_THROW(AnswerFeed(service_, prompts(3, 2), metrics_, Clock::now()));
  EXPECT_EQ(counted("abort"), "3");
}

TEST_F(StreamFeed, TheOthersOfACallThatFailedDidNotLeave) {
  engine::Update failure;
  failure.end.emplace().finish_reason = engine::FinishReason::kError;
  {
    RequestTimer timer(metrics_, Clock::now(), 2);
    timer.expect(0, 3);
    timer.expect(1, 3);
    timer.add(1, failure);
  }
  EXPECT_EQ(counted("error"), "6");
  EXPECT_EQ(counted("abort"), "0");
}

}  // namespace
}  // namespace reprofuse::server
