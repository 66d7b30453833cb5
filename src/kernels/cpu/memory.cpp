#include "kernels/cpu/memory.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "base/check.hpp"

namespace reprofuse::cpu {
namespace {

// A file that holds one number; none when there is no such file or it says "max".
std::optional<std::int64_t> number_in(const std::string& path) {
  std::int64_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return std::nullopt;
}

std::int64_t available_to_the_system() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::string unit;
  for (std::int64_t kibibytes = 0; file >> key >> kibibytes; std::getline(file, unit))
    if (key == "MemAvailable:") return kibibytes << 10;
  fail(ErrorCode::kUnsupported, "/proc/meminfo has no MemAvailable; say how much memory to take with --kv-memory");
}

}  // namespace

std::int64_t available_memory() {
  std::int64_t available = available_to_the_system();
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, std::max<std::int64_t>(0, *limit - *used));
  return available;
}

}  // namespace reprofuse::cpu
