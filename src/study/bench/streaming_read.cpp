#include "study/bench/streaming_read.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
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
      run(way, tasks_ * kTaskBytes);
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

}  // namespace reprofuse::study
