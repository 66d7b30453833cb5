// The signals that stop a server.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string_view>

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

// A thread that waits for a disk may wait for ever, and whoever waits for that thread would, too.
inline void end_within(std::chrono::seconds timeout) {
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  std::signal(SIGALRM, [](int) {
    constexpr std::string_view kMessage = "reprofuse: what still waits, for a disk or for a pass, is given up\n";
    [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    _exit(EXIT_FAILURE);
  });
  alarm(static_cast<unsigned>(timeout.count()));
}

}  // namespace reprofuse::cli
