// The threads that serve connections: each has a loop of Asio's, and those of its connections that have updates. And
// the queue of tasks that threads of no connection run for them.
#pragma once

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprofuse::server {

using Socket = boost::asio::ip::tcp::socket;  // its executor is the loop of its worker

class Connection;

// Connections of one thread that have updates. The engine's thread, which tells of them one by one, wakes that thread
// once for all that it has not looked at yet.
class WakeupList {
 public:
  explicit WakeupList(boost::asio::io_context& io) : io_(io) {}
  void add(std::shared_ptr<Connection> connection);  // by any thread; throws where there is no memory

 private:
  void take();

  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> waiting_;  // where there is one, take() was posted
  std::vector<std::shared_ptr<Connection>> taken_;
};

// A thread with a loop of Asio's. Where there is no memory for what one handler wants, others go on. A strand, or a
// pool of Asio's, would end the process there.
class Worker {
 public:
  void start();
  void join();
  void run_once_more();  // for what was posted after join()
  Socket new_socket() { return Socket(io_); }
  WakeupList& wakeups() { return wakeups_; }

 private:
  void run();

  boost::asio::io_context io_{1};
  WakeupList wakeups_{io_};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

// Tasks that wait for a thread: bodies to parse, receipts to keep. Clients take turns, so that one with many or long
// ones holds up nobody but itself.
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
