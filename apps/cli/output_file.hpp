// A file that a command writes when it is done.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "base/check.hpp"

namespace reprofuse::cli {

// Opened before anything is measured, so that a wrong path costs no time. An empty path is no file.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    file_.open(path_);
    require(file_.is_open(), "{}: cannot be written", path_);
  }

  bool is_wanted() const { return !path_.empty(); }

  void write(std::string_view text) {
    if (!is_wanted()) return;
    file_ << text;
    file_.close();
    require(!file_.fail(), "{}: cannot be written", path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace reprofuse::cli
