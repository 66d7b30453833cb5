// Standard streams: who reads them, a person at a terminal, a pipe or nobody; and how a count is written there.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace reprofuse::cli {

std::string counted(std::ptrdiff_t count, std::string_view what);  // "1 token", "2 tokens"

// Writes to a descriptor that may be a file, a terminal or a pipe whose reader stopped reading. False: not all of it
// could be written, or nothing was taken for so long.
bool write_patiently(int descriptor, std::string_view text, std::chrono::milliseconds timeout) noexcept;

// To be called first. Where 0, 1 or 2 is closed, a socket could get that number, and a log would go to a client. What
// is opened there instead can be neither read (0) nor written (1, 2), as if it were still closed.
void occupy_standard_descriptors() noexcept;

class Terminal {
 public:
  Terminal();

  std::size_t columns() const { return columns_; }  // of stdout; 0 when it is not a terminal
  std::string green(std::string_view text) const { return coloured("32", text); }
  std::string red(std::string_view text) const { return coloured("31", text); }

  // One line on stderr that the next one overwrites; nothing when stderr is not a terminal.
  void progress(std::string_view line) const;
  void clear_progress() const { progress(""); }

 private:
  std::string coloured(const char* code, std::string_view text) const;

  std::size_t columns_ = 0;
  bool colour_ = false;
  bool progress_ = false;
};

}  // namespace reprofuse::cli
