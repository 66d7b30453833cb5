// A thread that runs connections.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <thread>

#include "server/http/connection.hpp"

namespace reprofuse::server {

// A thread with a loop of Asio's. Where there is no memory for what one handler wants, others go on. A strand, or a
// pool of Asio's, would end the process there.
class Worker {
 public:
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  void join() {
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }
  void run_once_more() {
    io_.restart();
    run();
  }
  Socket new_socket() { return Socket(io_); }
  ConnectionNews& news() { return news_; }

 private:
  void run() {
    for (;;) try {
        io_.run();
        return;
      } catch (const std::exception&) {
      }
  }

  boost::asio::io_context io_{1};
  ConnectionNews news_{io_};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

}  // namespace reprofuse::server
