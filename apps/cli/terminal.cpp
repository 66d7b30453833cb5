#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace reprofuse::cli {

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
  fmt::print(stderr, "\r{}\x1b[K", line.substr(0, width));
  std::fflush(stderr);
}

std::string Terminal::coloured(const char* code, std::string_view text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace reprofuse::cli
