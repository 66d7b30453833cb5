// Tasks that wait for a thread: bodies to parse, receipts to keep. Clients take turns, so that one with many or long
// ones holds up nobody but itself.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <utility>

namespace reprofuse::server {

class TurnQueue {
 public:
  using Task = std::function<void()>;  // throws nothing

  void add(const std::string& client, Task task) {
    std::list<Client> added(1);
    added.front().name = client;
    const std::lock_guard lock(mutex_);
    const auto is_client = [&](const Client& other) { return other.name == client; };
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), is_client);
    (found == waiting_.end() ? added.front() : *found).tasks.push_back(std::move(task));
    if (found == waiting_.end()) waiting_.splice(waiting_.end(), added);
    changed_.notify_one();
  }

  // Runs tasks until stop(); for several threads at once.
  void run() {
    while (const Task task = next()) task();  // and drops it before it waits for another
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

 private:
  struct Client {
    std::string name;
    std::deque<Task> tasks;
  };

  Task next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
    if (waiting_.empty()) return {};
    const auto turn = waiting_.begin();
    Task task = std::move(turn->tasks.front());
    turn->tasks.pop_front();
    if (turn->tasks.empty())
      waiting_.erase(turn);
    else
      waiting_.splice(waiting_.end(), waiting_, turn);
    return task;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Client> waiting_;  // each has a task; the one whose turn it is first
  bool is_over_ = false;
};

}  // namespace reprofuse::server
