// What ranks exchange on a device's stream, without the host: enqueued as kernels are, and captured with them in
// graphs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace reprofuse::parallel {

// Memory is that of the device, sizes are in words of 32 bits, and all ranks make the same calls in the same order. A
// call that throws RankFailure leaves the communicator aborted.
class StreamCommunicator {
 public:
  StreamCommunicator() = default;
  virtual ~StreamCommunicator() = default;
  StreamCommunicator(const StreamCommunicator&) = delete;
  StreamCommunicator& operator=(const StreamCommunicator&) = delete;

  virtual std::string description() const = 0;  // "NCCL 2.28.3"

  // As those of Communicator.
  virtual void all_gather(void* all, std::span<const std::int64_t> part_words, void* stream) = 0;
  virtual void gather_to_first(void* all, std::span<const std::int64_t> part_words, void* stream) = 0;
  virtual void broadcast(void* data, std::int64_t words, void* stream) = 0;
  // What is enqueued after it waits until all ranks have come to it; `words` is room for one word of each rank.
  virtual void barrier(void* words, void* stream) = 0;

  // Throws where what was enqueued has failed, here or on another rank.
  virtual void check() = 0;
  // What is enqueued ends, with whatever has come. Nothing can be enqueued any more.
  virtual void abort() noexcept = 0;
};

}  // namespace reprofuse::parallel
