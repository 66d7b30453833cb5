// A file that a command writes when it is done.
#pragma once

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.hpp"

namespace reprofuse::cli {

// Tried before anything is measured, so that a wrong path costs no time; what it holds stays until there is something
// to put in its place. An empty path is no file.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    if (is_wanted() && !std::ofstream(path_, std::ios::app).is_open()) fail_to_write();
  }

  bool is_wanted() const { return !path_.empty(); }

  void write(std::string_view text) {
    if (!is_wanted()) return;
    std::ofstream file(path_);
    file << text;
    file.close();
    if (file.fail()) fail_to_write();
  }

 private:
  [[noreturn]] void fail_to_write() const {
    fail(ErrorCode::kInvalidArgument, "{}: cannot be written: {}", path_, std::strerror(errno));
  }

  std::string path_;
};

}  // namespace reprofuse::cli
