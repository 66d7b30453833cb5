#include "study/bench/machine.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "base/math.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprofuse::study {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kTaskBytes = kHugePage / 8;
constexpr std::size_t kLine = 64;
constexpr std::size_t kWords = kLine / sizeof(std::uint64_t);
constexpr std::size_t kStreams[] = {1, 2, 4, 8};
constexpr int kTrials = 5;
constexpr std::size_t kTrialsPerRound = 8;  // each reads another part, so that no cache keeps it for the next

std::uint64_t fold(const std::uint64_t (&words)[kWords]) {
  std::uint64_t folded = 0;
  for (const std::uint64_t word : words) folded ^= word;
  return folded;
}

std::uint64_t read_words(const void* memory, std::size_t lines, std::size_t streams) {
  const auto* words = static_cast<const std::uint64_t*>(memory);
  const std::size_t run = lines / streams;
  std::uint64_t sum[kWords] = {};
  for (std::size_t i = 0; i < run; ++i)
    for (std::size_t s = 0; s < streams; ++s)
      for (std::size_t w = 0; w < kWords; ++w) sum[w] ^= words[(s * run + i) * kWords + w];
  return fold(sum);
}

#if defined(__x86_64__)
[[gnu::target("avx512f")]] std::uint64_t read_avx512(const void* memory, std::size_t lines, std::size_t streams) {
  const auto* line = static_cast<const __m512i*>(memory);
  const std::size_t run = lines / streams;
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < run; ++i)
    for (std::size_t s = 0; s < streams; ++s) sum = _mm512_xor_si512(sum, _mm512_load_si512(line + s * run + i));
  std::uint64_t words[kWords];
  std::memcpy(words, &sum, sizeof(words));
  return fold(words);
}
#endif

std::vector<StreamingRead::Way> ways() {
  std::vector<StreamingRead::ReadLines> widths = {read_words};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) widths.push_back(read_avx512);
#endif
  std::vector<StreamingRead::Way> all;
  for (const auto read : widths)
    for (const std::size_t streams : kStreams) all.push_back({read, streams});
  return all;
}

}  // namespace

StreamingRead::StreamingRead(std::size_t bytes, ThreadPool& pool)
    : pool_(pool),
      tasks_(round_up(bytes, kHugePage) / kTaskBytes),
      memory_(std::aligned_alloc(kHugePage, tasks_ * kTaskBytes)) {
  if (memory_ == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  madvise(memory_.get(), tasks_ * kTaskBytes, MADV_HUGEPAGE);
#endif
  std::memset(memory_.get(), 1, tasks_ * kTaskBytes);
  auto best = std::chrono::steady_clock::duration::max();
  for (const Way& way : ways()) {
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto begin = std::chrono::steady_clock::now();
      run(way, tasks_ * kTaskBytes / kTrialsPerRound);
      const auto took = std::chrono::steady_clock::now() - begin;
      if (took < best) way_ = way;
      best = std::min(best, took);
    }
  }
}

std::size_t StreamingRead::run(const Way& way, std::size_t bytes) {
  const auto* memory = static_cast<const std::byte*>(memory_.get());
  const std::size_t count = ceil_div(bytes, kTaskBytes);
  pool_.parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t index, int) {
    const std::size_t task = (next_task_ + static_cast<std::size_t>(index)) % tasks_;
    const std::uint64_t folded = way.read(memory + task * kTaskBytes, kTaskBytes / kLine, way.streams);
    asm volatile("" : : "r"(folded));  // the compiler must not drop the reads
  });
  next_task_ = (next_task_ + count) % tasks_;
  return count * kTaskBytes;
}

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
