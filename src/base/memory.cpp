#include "base/memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/check.hpp"

namespace reprofuse {
namespace {

// A file that holds one number; none when there is no such file or it says "max".
std::optional<std::int64_t> number_in(const std::string& path) {
  std::int64_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return std::nullopt;
}

// A file of lines with a name, a number and perhaps a unit.
std::map<std::string, std::int64_t> numbers_in(const std::string& path) {
  std::map<std::string, std::int64_t> numbers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.find_first_of(": \t");
    const std::size_t begin = line.find_first_of("0123456789", end);
    if (begin < line.size()) numbers[line.substr(0, end)] = std::strtoll(line.c_str() + begin, nullptr, 10);
  }
  return numbers;
}

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;  // version 1 has a number for it

struct GroupFiles {
  const char* controller;  // in /proc/self/cgroup
  const char* root;
  const char* limit;
  const char* used;
  const char* prefix;  // of names in memory.stat that count what is below the group, too
};

constexpr GroupFiles kVersions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", ""},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}};

// What one group leaves of its limit.
std::optional<std::int64_t> available_in(const std::string& folder, const GroupFiles& files) {
  const auto limit = number_in(folder + "/" + files.limit);
  const auto used = number_in(folder + "/" + files.used);
  if (!limit || !used) return std::nullopt;
  auto counts = numbers_in(folder + "/memory.stat");
  const std::string prefix = files.prefix;
  return *limit - *used + counts[prefix + "inactive_file"] + counts[prefix + "active_file"];
}

// The process's group, and all that it is in. In a container the one named there may be the root here.
std::int64_t available_in_groups() {
  std::int64_t available = INT64_MAX;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:memory:/a/b", "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    for (const GroupFiles& files : kVersions) {
      if (line.substr(first + 1, second - first - 1) != files.controller) continue;
      for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
        if (path == "/") path.clear();
        if (const auto left = available_in(files.root + path, files))
          available = std::min(available, std::max<std::int64_t>(0, *left));
        if (!path.starts_with('/')) break;
      }
    }
  }
  return available;
}

}  // namespace

std::int64_t available_memory() {
  const auto system = numbers_in("/proc/meminfo");
  const auto found = system.find("MemAvailable");
  if (found == system.end())
    fail(ErrorCode::kUnsupported, "/proc/meminfo has no MemAvailable; give the size of the KV cache explicitly");
  return std::min(found->second << 10, available_in_groups());
}

bool has_memory_limit() {
  rlimit limit = {};
  for (const auto kind : {RLIMIT_AS, RLIMIT_DATA})
    if (getrlimit(kind, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
  return available_in_groups() < kNoLimit;
}

void stay_within_control_groups() {
  const std::int64_t available = available_in_groups();
  auto own = numbers_in("/proc/self/status");
  const std::int64_t data = own["VmData"] << 10;
  rlimit limit = {};
  if (available >= kNoLimit || data == 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  const std::int64_t untouched = data - (own["RssAnon"] << 10);
  // A part is for what the system itself needs, such as buffers of sockets.
  const auto wanted = static_cast<rlim_t>(data + std::max<std::int64_t>(0, available - untouched) / 8 * 7);
  if (limit.rlim_cur <= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace reprofuse
