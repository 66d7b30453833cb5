// The plainest use of memory there is: reading it once. What a memory-bound kernel is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/thread_pool.hpp"

namespace reprofuse::study {

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

}  // namespace reprofuse::study
