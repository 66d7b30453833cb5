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
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
}

std::string Terminal::coloured(const char* code, std::string_view text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace reprofuse::cli
