#include "base/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/fp_environment.hpp"

namespace reprofuse {
namespace {

// How long an idle worker polls before it sleeps: longer than the gap between two ops of a model, far shorter than a
// person notices.
constexpr auto kPoll = std::chrono::microseconds(100);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

template <typename Condition>
bool poll(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPoll;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return condition();
}

// For waits that are short as a rule. The awaited thread may need this very core, so a long one yields it.
template <typename Condition>
void spin_until(Condition condition) {
  constexpr int kSpins = 4096;
  for (int spins = 0; !condition();) {
    if (spins < kSpins) {
      ++spins;
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

// Keeps the calling worker off one core. The kernel tends to wake a worker on the core of the thread that woke it; on
// two cores they then share one for milliseconds, which is longer than most loops.
class CoreToAvoid {
 public:
  CoreToAvoid() {
    CPU_ZERO(&allowed_);
    CPU_ZERO(&chosen_);
  }

  void set(int cpu) {
    if (cpu == avoided_ || cpu < 0 || cpu >= CPU_SETSIZE) return;
    cpu_set_t now;
    CPU_ZERO(&now);
    if (sched_getaffinity(0, sizeof(now), &now) != 0) return;
    if (!CPU_EQUAL(&now, &chosen_)) allowed_ = now;  // set by others since: that is what is allowed
    avoided_ = cpu;
    chosen_ = allowed_;
    CPU_CLR(static_cast<std::size_t>(cpu), &chosen_);
    sched_setaffinity(0, sizeof(chosen_), &chosen_);  // a hint: if it is refused, the worker runs where it was
  }

 private:
  cpu_set_t allowed_;  // by the process, or by whoever narrowed it since
  cpu_set_t chosen_;   // the mask set here last
  int avoided_ = -1;
};

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(static_cast<std::size_t>(std::max(0, threads - 1)));
  try {
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (...) {
    stop();  // those that did start
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(std::int64_t count, const std::function<void(std::int64_t, int)>& task) {
  std::lock_guard one_loop(one_loop_);
  task_ = &task;
  count_ = count;
  next_ = 0;
  error_ = nullptr;
  const bool shared = count > 1 && !workers_.empty();
  if (shared) open_loop();
  take_tasks(0);
  if (shared) close_loop();
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::open_loop() {
  caller_cpu_ = sched_getcpu();
  inside_.store(0, std::memory_order_release);
  {
    std::lock_guard lock(mutex_);
    ++loop_;
  }
  start_.notify_all();
}

void ThreadPool::close_loop() {
  inside_.fetch_add(kClosed, std::memory_order_relaxed);
  spin_until([&] { return inside_.load(std::memory_order_acquire) == kClosed; });
}

bool ThreadPool::enter_loop() {
  int inside = inside_.load(std::memory_order_relaxed);
  while (inside >= 0)
    if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  return false;
}

void ThreadPool::leave_loop() {
  inside_.fetch_sub(1, std::memory_order_release);
}

void ThreadPool::take_tasks(int worker) {
  try {
    for (std::int64_t index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) (*task_)(index, worker);
  } catch (...) {
    next_ = count_;
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

bool ThreadPool::wait_for_loop(std::uint64_t seen) {
  const auto ready = [&] { return stop_.load() || loop_.load() != seen; };
  if (!poll(ready)) {
    std::unique_lock lock(mutex_);
    start_.wait(lock, ready);
  }
  return !stop_.load();
}

void ThreadPool::work(int worker) {
  const FpEnvironment pinned;  // a thread inherits its creator's rounding mode; ours must not
  CoreToAvoid core;
  for (std::uint64_t seen = 0; wait_for_loop(seen);) {
    seen = loop_.load();
    if (!enter_loop()) continue;
    core.set(caller_cpu_);
    take_tasks(worker);
    leave_loop();
  }
}

}  // namespace reprofuse
