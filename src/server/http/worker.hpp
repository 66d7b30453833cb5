// The threads that serve connections: each has a loop of Asio's, and those of its connections that have updates.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <mutex>
#include <thread>
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

}  // namespace reprofuse::server
