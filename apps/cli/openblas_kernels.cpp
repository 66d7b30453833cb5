#include "cli/openblas_kernels.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "base/check.hpp"
#include "kernels/vendor/libraries.hpp"

namespace reprofuse::cli {
namespace {

constexpr const char* kSelf = "/proc/self/exe";
// Names that OpenBLAS knows, newest first. One that this machine cannot run falls back to another or ends its process.
constexpr const char* kCoreTypes[] = {"SkylakeX",   "Haswell",   "Sandybridge", "Nehalem",
                                      "NEOVERSEN1", "CORTEXA57", "ARMV8"};

// The environment of this process with one more choice in it.
std::vector<std::string> environment_with(const std::string& assignment) {
  const std::string name = assignment.substr(0, assignment.find('=') + 1);
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string(*entry).rfind(name, 0) != 0) entries.emplace_back(*entry);
  entries.push_back(assignment);
  return entries;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

// stdout of this tool with the arguments; nothing when it fails. Its stderr goes nowhere.
std::optional<std::string> run_self(std::vector<std::string> arguments, std::vector<std::string> environment) {
  std::array<int, 2> pipe_ends{};
  require(pipe(pipe_ends.data()) == 0, "ablate: a pipe to another process cannot be made");
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[1]);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, kSelf, &actions, nullptr, pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  std::string text = failed == 0 ? read_all(pipe_ends[0]) : "";
  close(pipe_ends[0]);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return std::nullopt;
  return text;
}

std::optional<study::VendorKernels> parse(const std::optional<std::string>& printed) {
  if (!printed) return std::nullopt;
  std::istringstream lines(*printed);
  study::VendorKernels kernels;
  std::getline(lines, kernels.name);
  for (std::string digest; std::getline(lines, digest);) kernels.digests.push_back(digest);
  if (kernels.digests.size() != study::ablation_cases().size()) return std::nullopt;
  return kernels;
}

}  // namespace

void print_openblas_digests() {
  const auto machine = study::make_cpu_ablation_machine();
  const std::string description = vendor::OpenBlas(1).description();
  const std::vector<std::string> digests = study::vendor_digests(*machine, {});
  const auto comma = description.rfind(", ");
  fmt::print("{}\n", description.substr(comma == std::string::npos ? 0 : comma + 2));
  for (const std::string& digest : digests) fmt::print("{}\n", digest);
}

std::vector<study::VendorKernels> run_openblas_kernels() {
  std::vector<study::VendorKernels> found;
  for (const char* core_type : kCoreTypes) {
    auto kernels = parse(run_self({"reprofuse", "ablate", "r1", "--openblas-digests"},
                                  environment_with(fmt::format("OPENBLAS_CORETYPE={}", core_type))));
    const bool is_new = kernels && std::none_of(found.begin(), found.end(), [&](const study::VendorKernels& known) {
                          return known.name == kernels->name;
                        });
    if (is_new) found.push_back(std::move(*kernels));
  }
  return found;
}

}  // namespace reprofuse::cli
