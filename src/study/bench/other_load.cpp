#include "study/bench/other_load.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace reprofuse::study {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

std::optional<std::int64_t> busy_ticks(std::string_view proc_stat) {
  // cpu  user nice system idle iowait irq softirq steal guest guest_nice; guests are part of user and nice.
  constexpr std::size_t kIdle = 3;
  constexpr std::size_t kIoWait = 4;
  constexpr std::size_t kGuest = 8;
  std::istringstream line{std::string(proc_stat.substr(0, proc_stat.find('\n')))};
  std::string name;
  if (!(line >> name) || name != "cpu") return std::nullopt;
  std::int64_t busy = 0, ticks = 0;
  std::size_t column = 0;
  for (; column < kGuest && line >> ticks; ++column)
    if (column != kIdle && column != kIoWait) busy += ticks;
  if (column < kGuest) return std::nullopt;
  return busy;
}

std::optional<CoreUse> core_use_now() {
  std::stringstream text;
  text << std::ifstream("/proc/stat").rdbuf();
  const std::optional<std::int64_t> ticks = busy_ticks(text.str());
  const long per_second = sysconf(_SC_CLK_TCK);
  rusage used = {};
  if (!ticks || per_second <= 0 || getrusage(RUSAGE_SELF, &used) != 0) return std::nullopt;
  return CoreUse{.at = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
                 .all = static_cast<double>(*ticks) / static_cast<double>(per_second),
                 .own = seconds_of(used.ru_utime) + seconds_of(used.ru_stime)};
}

double other_cores(const CoreUse& begin, const CoreUse& end) {
  const double seconds = end.at - begin.at;
  if (seconds <= 0) return 0;
  return std::max(0.0, (end.all - begin.all - (end.own - begin.own)) / seconds);
}

std::optional<double> OtherLoad::cores() const {
  const std::optional<CoreUse> end = core_use_now();
  if (!begin_ || !end) return std::nullopt;
  return other_cores(*begin_, *end);
}

}  // namespace reprofuse::study
