// Memory that runs out within the engine: answers under way end in an error or are right, and the service goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/engine_case.hpp"
#include "engine/service.hpp"

namespace {

// Allocations until one fails, while it is positive.
std::atomic<long> left = 0;
std::atomic<bool> has_failed = false;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (left > 0 && --left == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace reprofuse::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 120s;
constexpr std::int64_t kPages = 12;  // fewer than all want, so that some are preempted

class OutOfMemory : public testing::Test {
 protected:
  const std::unique_ptr<model::Model> model_ = model::bundled_model(Context::cpu(kDefaultNumerics, std::nullopt, 1));

  static Request request(std::uint64_t seed) {
    Request request = sampled_request(20, 12, seed % 2);
    request.choices = 3;
    request.client = seed % 2 == 0 ? "even" : "odd";
    request.stop_strings = {"a string that never comes"};
    return request;
  }

  static std::vector<std::string> digests(Answers& answers) {
    std::vector<std::string> digests(3, "none");
    while (!answers.finished()) {
      const std::optional<Update> update = answers.next(kPatience);
      if (!update) throw std::runtime_error("an answer has no end");
      if (!update->end) continue;
      const bool is_whole = update->end->finish_reason == FinishReason::kLength;
      EXPECT_FALSE(update->end->at_fault);
      digests[static_cast<std::size_t>(update->choice)] = is_whole ? update->end->digest : update->end->error;
    }
    return digests;
  }
};

TEST_F(OutOfMemory, EndsAnswersWithAnErrorAndTheServiceGoesOn) {
  const std::string kNoMemory = "there was no memory to complete the answer; try again";
  const auto new_service = [&] {
    const EngineOptions options{.kv_pages = kPages, .page_size = 16, .max_batch = 4, .max_rows = 16, .speculation = 2};
    return std::make_unique<Service>(std::make_unique<Engine>(*model_, options, bundled_tokenizer()), ServiceOptions());
  };
  std::vector<std::vector<std::string>> expected;
  {
    const auto service = new_service();
    for (std::uint64_t seed : {0, 1}) expected.push_back(digests(*service->submit(request(seed))));
  }
  const auto service = new_service();
  long failures = 0, failed_answers = 0;
  for (long allocation = 1;; allocation += 1 + allocation / 12) {
    has_failed = false;
    std::vector<std::unique_ptr<Answers>> all;
    left = allocation;
    for (std::uint64_t seed : {0, 1, 2, 3}) try {
        all.push_back(service->submit(request(seed)));
      } catch (const std::bad_alloc&) {  // where it was asked
        all.push_back(nullptr);
      }
    service->wait_until_idle(kPatience);
    left = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i]) continue;
      const std::vector<std::string> got = digests(*all[i]);
      if (got == expected[i % 2]) continue;
      ++failed_answers;
      for (const std::string& one : got)
        EXPECT_TRUE(one == kNoMemory ||
                    std::find(expected[i % 2].begin(), expected[i % 2].end(), one) != expected[i % 2].end())
            << allocation << ": " << one;
    }
    ASSERT_FALSE(service->failed()) << allocation;
    if (!has_failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 50);
  EXPECT_GT(failed_answers, 50) << "memory did run out within the engine";
  EXPECT_EQ(digests(*service->submit(request(0))), expected[0]);
  EXPECT_TRUE(service->wait_until_idle(kPatience));
  EXPECT_EQ(service->stats().pages_in_use, 0) << "no page is lost";
}

}  // namespace
}  // namespace reprofuse::engine
