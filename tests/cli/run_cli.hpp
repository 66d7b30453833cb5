// The real binary, run as a user runs it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "support/files.hpp"
#include "support/messages.hpp"

namespace reprofuse {

struct Finished {
  int status;
  std::string out;
  std::string err;
};

// `before` is shell text in front of the binary: "cd / && " or "echo hello | ".
inline Finished reprofuse(const std::string& arguments, const std::string& before = "") {
  const TemporaryFolder folder;
  const std::string out = folder.file("stdout"), err = folder.file("stderr");
  const std::string command = before + "'" + REPROFUSE_CLI + "' " + arguments + " >'" + out + "' 2>'" + err + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_whole_file(out), read_whole_file(err)};
}

}  // namespace reprofuse
