// Shared by the checkpoint tests: folders that vanish, messages of errors, edited JSON.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "reprofuse/error.hpp"

namespace reprofuse::checkpoint {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count = 0;
    path_ = testing::TempDir() + "/reprofuse-" + std::to_string(getpid()) + "-" + std::to_string(count++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

inline std::string read_whole_file(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The message of the Error that `call` throws; "" when it throws none.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// `json` with the keys of `changes` set; a key whose value is "<absent>" is removed.
inline std::string edited(const std::string& json, const std::string& changes) {
  auto root = nlohmann::json::parse(json);
  const auto edits = nlohmann::json::parse(changes);
  for (const auto& [key, value] : edits.items()) {
    if (value == "<absent>") {
      root.erase(key);
    } else {
      root[key] = value;
    }
  }
  return root.dump();
}

}  // namespace reprofuse::checkpoint
