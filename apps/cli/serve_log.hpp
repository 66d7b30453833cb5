// The log of a server: lines go through a queue of limited length to a thread that writes them. Whoever has something
// to say never waits for a disk or a reader, and what cannot be written is counted and forgotten.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "server/http/message.hpp"

namespace reprofuse::cli {

std::string line_of(const server::RequestLogEntry& entry);  // of an answered request, with the time now

class ServeLog {
 public:
  explicit ServeLog(int descriptor);
  ~ServeLog();  // writes what is there, for a short while
  ServeLog(const ServeLog&) = delete;
  ServeLog& operator=(const ServeLog&) = delete;

  void add(std::string line) noexcept;  // for any thread; without its end
  std::uint64_t dropped() const;

 private:
  void run() noexcept;

  const int descriptor_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace reprofuse::cli
