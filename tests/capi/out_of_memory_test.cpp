// Where memory runs out: nothing is lost, and nothing ends the process. operator new of this program fails on demand.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "capi/support.hpp"

namespace {

thread_local std::int64_t allocations_left = -1;  // of this thread; -1: no limit
std::atomic<bool> every_thread_fails = false;
thread_local bool is_spared = false;  // of this thread: it fails by allocations_left alone

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  const bool fails = (every_thread_fails && !is_spared) || allocations_left == 0;
  if (allocations_left > 0) --allocations_left;
  void* memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reprofuse::capi {
namespace {

class OutOfMemory : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(reprofuse_engine_create(loaded_.model, nullptr, &engine_), REPROFUSE_OK); }
  void TearDown() override {
    every_thread_fails = false;
    allocations_left = -1;
    reprofuse_engine_destroy(engine_);
  }

  reprofuse_answers* submit(std::int64_t max_tokens) {
    reprofuse_request request;
    EXPECT_EQ(reprofuse_request_init(&request, sizeof request), REPROFUSE_OK);
    request.prompt = prompt_.data();
    request.prompt_count = prompt_.size();
    request.max_tokens = max_tokens;
    request.logprobs = 3;
    request.prompt_logprobs = 2;
    request.stop_tokens = prompt_.data();  // none of them
    reprofuse_answers* answers = nullptr;
    EXPECT_EQ(reprofuse_engine_submit(engine_, &request, &answers), REPROFUSE_OK) << reprofuse_last_error();
    return answers;
  }
  std::int64_t running() const {
    reprofuse_engine_stats stats;
    EXPECT_EQ(reprofuse_engine_get_stats(engine_, &stats, sizeof stats), REPROFUSE_OK);
    return stats.running;
  }

  const CModel loaded_;
  const std::vector<std::int32_t> prompt_ = golden_prompt();
  reprofuse_engine* engine_ = nullptr;
};

// Every call fails at its first allocation, then at its second, and so on until it succeeds.
TEST_F(OutOfMemory, AnUpdateThatCouldNotBeShownComesAgain) {
  reprofuse_answers* answers = submit(8);
  reprofuse_update update;
  std::size_t prompt = 0, tokens = 0;
  int failures = 0;
  do {
    reprofuse_status status = REPROFUSE_OUT_OF_MEMORY;
    for (std::int64_t allowed = 0; status != REPROFUSE_OK; ++allowed) {
      allocations_left = allowed;
      status = reprofuse_answers_next(answers, 60000, &update, sizeof update);
      allocations_left = -1;
      ASSERT_TRUE(status == REPROFUSE_OK || status == REPROFUSE_OUT_OF_MEMORY) << reprofuse_last_error();
      failures += status == REPROFUSE_OK ? 0 : 1;
    }
    prompt += update.prompt_count;
    tokens += update.token_count;
  } while (update.kind != REPROFUSE_NEXT_FINISHED);
  EXPECT_GT(failures, 0);
  EXPECT_EQ(prompt, prompt_.size());
  EXPECT_EQ(tokens, 8U);
  reprofuse_answers_destroy(answers);
}

TEST_F(OutOfMemory, AnswersCanBeDroppedAndCancelled) {
  reprofuse_answers* dropped = submit(200);
  reprofuse_answers* cancelled = submit(200);
  allocations_left = 0;
  reprofuse_answers_destroy(dropped);
  const reprofuse_status status = reprofuse_answers_cancel(cancelled);
  reprofuse_answers_destroy(cancelled);
  allocations_left = -1;
  EXPECT_EQ(status, REPROFUSE_OK);
  for (int i = 0; i < 12000 && running() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(running(), 0) << "the engine was told";
}

TEST_F(OutOfMemory, AnswersUnderWayEndInAnErrorThatSaysSo) {
  reprofuse_answers* answers = submit(200);
  reprofuse_update update;
  every_thread_fails = true;  // the engine's, too: its pass fails, and so would whatever it told of it
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  every_thread_fails = false;
  std::string error;
  std::int32_t status = REPROFUSE_OK;
  do {
    ASSERT_EQ(reprofuse_answers_next(answers, 60000, &update, sizeof update), REPROFUSE_OK) << reprofuse_last_error();
    EXPECT_EQ(update.error_status == REPROFUSE_OK, update.finish_reason != REPROFUSE_FINISH_ERROR);
    if (update.finish_reason != REPROFUSE_FINISH_ERROR) continue;
    error = update.error;
    status = update.error_status;
  } while (update.kind != REPROFUSE_NEXT_FINISHED);
  EXPECT_NE(error.find("no memory"), std::string::npos) << error;
  EXPECT_EQ(status, REPROFUSE_OUT_OF_MEMORY);
  reprofuse_answers_destroy(answers);
}

TEST_F(OutOfMemory, GenerateThrowsBadAllocWhereTheEngineHadNoMemory) {
  const Engine engine(small_model(), {.max_batch = 1});
  Request request = golden_request();
  request.max_tokens = 900;
  request.stop_tokens.emplace();
  std::atomic<bool> has_ended = false;
  std::thread takes_memory([&] {
    while (engine.stats().generated_tokens == 0 && !has_ended)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    every_thread_fails = true;
    while (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    every_thread_fails = false;
  });
  is_spared = true;
  EXPECT_THROW((void)engine.generate(request), std::bad_alloc);
  is_spared = false;
  has_ended = true;
  takes_memory.join();
  request.max_tokens = 3;
  EXPECT_EQ(engine.generate(request)[0].tokens.size(), 3U) << "the engine goes on";
}

}  // namespace
}  // namespace reprofuse::capi
