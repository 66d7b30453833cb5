// The signals that stop a server.
#pragma once

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <ctime>

namespace reprofuse::cli {

// SIGINT, SIGTERM and one more, taken where they are asked for and nowhere else. Made before any thread is, since
// threads inherit it.
class StopSignals {
 public:
  explicit StopSignals(int one_more) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, one_more);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  // The number of one that came in time, or 0.
  int wait(std::chrono::milliseconds timeout) const {
    const timespec time = {.tv_sec = timeout.count() / 1000, .tv_nsec = timeout.count() % 1000 * 1'000'000};
    const int number = sigtimedwait(&signals_, nullptr, &time);
    return number > 0 ? number : 0;
  }

 private:
  sigset_t signals_;
};

}  // namespace reprofuse::cli
