// The updates of a call with several prompts, and what is counted of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

  AnswerFeed feed_of(std::vector<engine::Request> requests) {
    return {service_, std::move(requests), metrics_, Clock::now(), std::make_shared<engine::AnswerNotifier>()};
  }
  static std::optional<PromptUpdate> wait_for_next(AnswerFeed& feed) {
    std::optional<PromptUpdate> next;
    soon([&] { return (next = feed.next()).has_value(); });
    return next;
  }

  // One answer at a time, so that the others have none for as long as the first takes.
  std::shared_ptr<ServedModel> model_ = load_model([](ServedModelOptions& options) {
    options.engine.max_batch = 1;
    options.service.max_queue = 4;
  });
  engine::Service& service_ = model_->service();
  Metrics metrics_;
};

TEST_F(StreamFeed, SaysWhenNewsComes) {
  auto first = service_.submit(prompts(1, 900)[0]);
  ASSERT_TRUE(soon([&] { return service_.stats().running == 1; }));
  const auto is_told = std::make_shared<std::atomic<bool>>(false);  // the engine may tell when the feed is gone
  AnswerFeed feed = feed_of(prompts(3, 2));
  feed.on_update([is_told] { *is_told = true; });
  first.reset();  // the engine is free for the others
  EXPECT_TRUE(soon([&] { return is_told->load(); }));
  EXPECT_TRUE(feed.next());
}

TEST_F(StreamFeed, TellsOfEveryPromptUntilAllHaveEnded) {
  AnswerFeed feed = feed_of(prompts(4, 3));
  std::vector<std::size_t> tokens(4);
  std::size_t ended = 0;
  while (ended < tokens.size()) {
    const std::optional<PromptUpdate> next = wait_for_next(feed);
    ASSERT_TRUE(next);
    tokens.at(next->prompt) += next->update.tokens.size();
    ended += next->update.end ? 1 : 0;
  }
  EXPECT_EQ(tokens, std::vector<std::size_t>(4, 3));
  EXPECT_FALSE(feed.next());
}

TEST_F(StreamFeed, ACallIsTakenAsAWholeOrNotAtAll) {
  const auto first = service_.submit(prompts(1, 900)[0]);
  EXPECT_THROW(feed_of(prompts(4, 2)), engine::Refused);
  EXPECT_EQ(counted("abort"), "0") << "none of them had begun";
  EXPECT_NO_THROW(feed_of(prompts(3, 2)));
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
