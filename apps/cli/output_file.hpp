// A file that a command writes when it is done.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.hpp"

namespace reprofuse::cli {

// Tried before anything is measured, so that a wrong path costs no time; what it holds stays until there is something
// to put in its place, and a new file that nothing was written to goes again. An empty path is no file.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    std::error_code error;
    is_new_ = is_wanted() && !std::filesystem::exists(path_, error);
    if (is_wanted() && !std::ofstream(path_, std::ios::app).is_open()) fail_to_write();
  }
  ~OutputFile() {
    std::error_code error;
    if (is_new_ && std::filesystem::is_empty(path_, error) && !error) std::filesystem::remove(path_, error);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

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
  bool is_new_ = false;
};

}  // namespace reprofuse::cli
