#include "cli/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

namespace reprofuse::cli {

std::string counted(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

bool write_patiently(int descriptor, std::string_view text, std::chrono::milliseconds timeout) noexcept {
  while (!text.empty()) {
    pollfd entry = {.fd = descriptor, .events = POLLOUT, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(timeout.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || (entry.revents & POLLOUT) == 0) return false;
    // A pipe that can be written takes as much as this without waiting.
    const ssize_t written = write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void occupy_standard_descriptors() noexcept {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)  // then it is the lowest that is free
      open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

Terminal::Terminal() : progress_(isatty(STDERR_FILENO) == 1) {
  if (isatty(STDOUT_FILENO) != 1) return;
  const char* no_colour = std::getenv("NO_COLOR");
  colour_ = no_colour == nullptr || *no_colour == '\0';
  winsize size = {};
  columns_ = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void Terminal::progress(std::string_view line) const {
  if (!progress_) return;
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const std::size_t width = known ? size.ws_col - 1U : 79U;  // a line that wraps could not be overwritten
  constexpr std::chrono::milliseconds kPatience{50};
  write_patiently(STDERR_FILENO, fmt::format("\r{}\x1b[K", line.substr(0, width)), kPatience);
}

std::string Terminal::coloured(const char* code, std::string_view text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace reprofuse::cli
