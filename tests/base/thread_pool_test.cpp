#include "base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cfenv>
#include <stdexcept>
#include <system_error>

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

// In a process of its own, with address space for some of the stacks but not for all.
[[noreturn]] void start_more_threads_than_fit() {
  alarm(30);  // a pool that waits for its own threads is killed
  const rlimit limit{.rlim_cur = 1'000'000'000, .rlim_max = 1'000'000'000};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
  try {
    ThreadPool pool(1024);
  } catch (const std::system_error&) {
    _exit(0);
  }
  _exit(1);
}

TEST(ThreadPool, AThreadThatCannotStartIsAnErrorAndTheOthersEnd) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space that this test takes away";
#endif
  EXPECT_EXIT(start_more_threads_than_fit(), ::testing::ExitedWithCode(0), "");
}

// Runs work on the worker of a pool of two, while the caller waits inside a task of its own.
void on_worker(ThreadPool& pool, const std::function<void()>& work) {
  std::atomic<int> begun = 0;
  pool.parallel_for(2, [&](std::int64_t, int worker) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
    if (worker == 1) work();
  });
}

cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

void run_only_on(std::size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  EXPECT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

TEST(ThreadPool, AWorkerLeavesItsCallersCoreButNotTheCoresItWasLaterGiven) {
  const cpu_set_t all = affinity();
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs two cores";
  std::vector<std::size_t> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  ThreadPool pool(2);
  cpu_set_t seen;
  run_only_on(cpus[0]);
  on_worker(pool, [&] { seen = affinity(); });
  EXPECT_FALSE(CPU_ISSET(cpus[0], &seen));
  EXPECT_EQ(CPU_COUNT(&seen), CPU_COUNT(&all) - 1);

  on_worker(pool, [&] { run_only_on(cpus[0]); });
  for (const std::size_t caller : {cpus[1], cpus[0], cpus[1]}) {
    run_only_on(caller);
    on_worker(pool, [&] { seen = affinity(); });
    EXPECT_TRUE(CPU_ISSET(cpus[0], &seen) && CPU_COUNT(&seen) == 1) << "caller on core " << caller;
  }
  EXPECT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

int stopped_worker[2];  // a pipe: the worker that is stopped reads from it
std::atomic<bool> is_stopped = false;

void stop_until_told(int) {
  is_stopped = true;
  char told = 0;
  while (read(stopped_worker[0], &told, 1) < 0) {
  }
}

// As if another process had its core.
TEST(ThreadPool, AWorkerThatDoesNotRunHoldsUpNoLoopThatItIsNotIn) {
  ASSERT_EQ(pipe(stopped_worker), 0);
  struct sigaction stop = {}, before = {};
  stop.sa_handler = stop_until_told;
  ASSERT_EQ(sigaction(SIGUSR1, &stop, &before), 0);
  ThreadPool pool(2);
  pthread_t worker = {};
  on_worker(pool, [&] { worker = pthread_self(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it has left the loop, and sleeps
  ASSERT_EQ(pthread_kill(worker, SIGUSR1), 0);
  while (!is_stopped) std::this_thread::yield();

  std::atomic<int> sum = 0;
  for (int loop = 0; loop < 3; ++loop) pool.parallel_for(100, [&](std::int64_t, int) { ++sum; });
  EXPECT_EQ(sum, 300);

  ASSERT_EQ(write(stopped_worker[1], "", 1), 1);
  int takes_part = 0;
  on_worker(pool, [&] { ++takes_part; });
  EXPECT_EQ(takes_part, 1);
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  close(stopped_worker[0]);
  close(stopped_worker[1]);
}

TEST(ThreadPool, AtLeastOneCoreIsAvailable) {
  EXPECT_GE(available_cores(), 1);
}

}  // namespace
}  // namespace reprofuse
