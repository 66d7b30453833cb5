#include "base/thread_pool.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <stdexcept>

namespace reprofuse {
namespace {

constexpr int kThreadCounts[] = {1, 2, 3, 7};

TEST(ThreadPool, EveryIndexIsTakenOnceByAWorkerThatExists) {
  for (const int threads : kThreadCounts) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
      std::atomic<int> strangers = 0;
      pool.parallel_for(count, [&](std::int64_t index, int worker) {
        ++taken[static_cast<std::size_t>(index)];
        if (worker < 0 || worker >= threads) ++strangers;
      });
      for (const auto& times : taken) ASSERT_EQ(times, 1);
      EXPECT_EQ(strangers, 0);
    }
  }
}

TEST(ThreadPool, AllWritesOfALoopAreSeenAfterIt) {
  ThreadPool pool(3);
  std::vector<std::int64_t> values(64);
  for (std::int64_t round = 1; round <= 2000; ++round) {
    pool.parallel_for(64, [&](std::int64_t index, int) { values[static_cast<std::size_t>(index)] += index; });
    for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i * round);
  }
}

TEST(ThreadPool, WorkersThatWentToSleepWakeForTheNextLoop) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> sum = 0;
    pool.parallel_for(100, [&](std::int64_t, int) { ++sum; });
    EXPECT_EQ(sum, 100);
  }
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolSurvivesIt) {
  for (const int threads : kThreadCounts) {
    ThreadPool pool(threads);
    const auto failing = [](std::int64_t index, int) {
      if (index == 17) throw std::runtime_error("task 17");
    };
    try {
      pool.parallel_for(100, failing);
      FAIL() << "the exception was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 17");
    }
    std::atomic<int> sum = 0;
    pool.parallel_for(100, [&](std::int64_t, int) { ++sum; });
    EXPECT_EQ(sum, 100);
  }
}

TEST(ThreadPool, SeveralThreadsMayShareAPool) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<std::int64_t> sums(4);
  for (std::int64_t& sum : sums)
    callers.emplace_back([&pool, &sum] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<std::int64_t> loop = 0;
        pool.parallel_for(10, [&](std::int64_t index, int) { loop += index; });
        sum += loop;
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 200 * 45);
}

// By arithmetic, since fegetround() may ask another unit than the one that computes.
bool rounds_up() {
  const volatile float one = 1.0F;
  const volatile float tiny = 0x1p-30F;
  return one + tiny != 1.0F;
}

TEST(ThreadPool, WorkersRoundToNearestWhateverTheirCreatorDid) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  EXPECT_TRUE(rounds_up()) << "the control: the creator does round up";
  ThreadPool pool(3);
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  std::atomic<int> others = 0;
  std::atomic<int> wrong = 0;
  for (int round = 0; round < 50; ++round)
    pool.parallel_for(64, [&](std::int64_t, int worker) {
      if (worker == 0) std::this_thread::yield();
      if (worker != 0) ++others;
      if (rounds_up()) ++wrong;
    });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(others, 0) << "no task reached another thread, so nothing was shown";
}

TEST(ThreadPool, AtLeastOneCoreIsAvailable) {
  EXPECT_GE(available_cores(), 1);
}

}  // namespace
}  // namespace reprofuse
