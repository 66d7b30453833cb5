// The real binary, run as a user runs it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace reprofuse {

inline std::string read_text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A path of this test's own: ctest runs the tests of a file side by side.
inline std::string temp_path(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "/reprofuse_cli_" + test->test_suite_name() + "_" + test->name() + "_" +
         std::to_string(getpid()) + "_" + name;
}

struct Finished {
  int status;
  std::string out;
  std::string err;
};

// `before` is shell text in front of the binary: "cd / && " or "echo hello | ".
inline Finished reprofuse(const std::string& arguments, const std::string& before = "") {
  const std::string out = temp_path("stdout");
  const std::string err = temp_path("stderr");
  const std::string command = before + "'" + REPROFUSE_CLI + "' " + arguments + " >'" + out + "' 2>'" + err + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(out), read_text(err)};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace reprofuse
