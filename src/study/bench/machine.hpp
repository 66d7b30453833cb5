// What a machine can do, and what others take of it while something is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "base/thread_pool.hpp"

namespace reprofuse::study {

// The plainest use of memory there is: reading it once. What a memory-bound kernel is measured against.

class StreamingRead {
 public:
  // Tries a few ways to read (register width, streams per thread) and keeps the fastest. Huge pages where there are
  // any.
  // `bytes` of memory, well past the last-level cache.
  StreamingRead(std::size_t bytes, ThreadPool& pool);

  // Reads on from where the last call stopped, around the buffer: at least `bytes`. Returns how many.
  std::size_t run(std::size_t bytes) { return run(way_, bytes); }

  // Reads `lines` 64-byte lines as `streams` equal runs side by side; the result only keeps the reads alive.
  using ReadLines = std::uint64_t (*)(const void* memory, std::size_t lines, std::size_t streams);
  struct Way {
    ReadLines read;
    std::size_t streams;
  };

 private:
  std::size_t run(const Way& way, std::size_t bytes);

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  ThreadPool& pool_;
  std::size_t tasks_;
  std::unique_ptr<void, Free> memory_;
  Way way_{};
  std::size_t next_task_ = 0;
};

// What other programs take of the machine while something is measured.

// Ticks that all cores together were not idle, from the text of /proc/stat; what a hypervisor took for other guests
// counts, and guests of this machine count once. None when the text is something else.
std::optional<std::int64_t> busy_ticks(std::string_view proc_stat);

// Seconds of cores that were in use since some moment, at another.
struct CoreUse {
  double at;   // seconds
  double all;  // by everyone
  double own;  // by this process
};
std::optional<CoreUse> core_use_now();  // none where the system does not tell

// Cores that others kept busy between the two, on average.
double other_cores(const CoreUse& begin, const CoreUse& end);

// Begins when it is made.
class OtherLoad {
 public:
  OtherLoad() : begin_(core_use_now()) {}

  std::optional<double> cores() const;  // since then

 private:
  std::optional<CoreUse> begin_;
};

}  // namespace reprofuse::study
