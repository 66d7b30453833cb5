#include "server/http/worker.hpp"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "server/http/connection.hpp"

namespace reprofuse::server {

void WakeupList::add(std::shared_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(connection));
  if (waiting_.size() > 1) return;
  try {
    boost::asio::post(io_, [this] { take(); });
  } catch (...) {
    waiting_.clear();
    throw;
  }
}

void WakeupList::take() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(waiting_);
  }
  for (const std::shared_ptr<Connection>& connection : taken_) connection->wake();
  taken_.clear();
}

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::join() {
  work_.reset();
  if (thread_.joinable()) thread_.join();
}

void Worker::run_once_more() {
  io_.restart();
  run();
}

void Worker::run() {
  for (;;) try {
      io_.run();
      return;
    } catch (const std::exception&) {
    }
}

}  // namespace reprofuse::server
