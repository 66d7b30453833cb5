// A fixed set of threads that share out the tasks of one loop at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace reprofuse {

// Cores this process may use (its affinity mask, not the machine's core count).
int available_cores();

// What a loop is cut into, so that a thread which loses its core holds up little.
inline constexpr std::int64_t kTasksPerThread = 4;

inline constexpr int kMaxThreads = 1024;  // that a user may ask for

class ThreadPool {
 public:
  // The calling thread takes part, so `threads` = 1 starts none. Throws std::system_error when the system refuses one.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index, worker) once for every index in [0, count), worker in [0, threads()), and returns when all are
  // done. Which worker takes which index is not defined. The first exception thrown is rethrown here.
  void parallel_for(std::int64_t count, const std::function<void(std::int64_t index, int worker)>& task);

 private:
  void work(int worker);
  void stop();
  void open_loop();
  void close_loop();
  bool enter_loop();
  void leave_loop();
  void take_tasks(int worker);
  bool wait_for_loop(std::uint64_t seen);

  std::vector<std::thread> workers_;
  std::mutex one_loop_;  // held by the caller of parallel_for
  std::mutex mutex_;     // guards sleeping and waking
  std::condition_variable start_;
  std::atomic<std::uint64_t> loop_ = 0;  // number of the current loop; workers wait for it to change
  std::atomic<bool> stop_ = false;
  // Workers inside the current loop; less than 0 when it is closed. Whoever comes late finds it so and is not waited
  // for: a thread without a core holds up only the task that it has.
  static constexpr int kClosed = -(1 << 20);
  std::atomic<int> inside_ = kClosed;

  // Of the current loop, written while it is closed and nobody is inside:
  int caller_cpu_ = -1;  // where parallel_for was called, so that no worker is woken on top of it
  const std::function<void(std::int64_t, int)>* task_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_ = 0;
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace reprofuse
