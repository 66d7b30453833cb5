#include "cli/own_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/check.hpp"

namespace reprofuse::cli {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

std::vector<std::string> environment_with(const std::string& assignment) {
  const std::string name = assignment.substr(0, assignment.find('=') + 1);
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (name.empty() || std::string(*entry).rfind(name, 0) != 0) entries.emplace_back(*entry);
  if (!assignment.empty()) entries.push_back(assignment);
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

}  // namespace

std::optional<std::string> run_self(std::vector<std::string> arguments, const std::string& assignment,
                                    OwnErrors errors) {
  std::array<int, 2> pipe_ends{};
  require(pipe(pipe_ends.data()) == 0, "a pipe to another process cannot be made");
  arguments.insert(arguments.begin(), "reprofuse");
  std::vector<std::string> environment = environment_with(assignment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[1]);
  if (errors == OwnErrors::kHidden) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, kSelf, &actions, nullptr, pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  std::string text = failed == 0 ? read_all(pipe_ends[0]) : "";
  close(pipe_ends[0]);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return std::nullopt;
  return text;
}

}  // namespace reprofuse::cli
