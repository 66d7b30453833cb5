// Processes that compute one model together: its ranks. Rank 0 leads. All ranks make the same calls in the same order.
// No sum is ever taken between ranks: what they exchange are results, and those arrive as they were sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "reprofuse/error.hpp"

namespace reprofuse::parallel {

// How long a call waits for the other ranks: a while, after which one of them counts as lost, or as long as it takes,
// where another may be loading a model or have nothing to do.
enum class Patience { kBounded, kEndless };

// A rank has ended, does not answer, or is out of step. Nothing can be computed any more.
class RankFailure : public Error {
 public:
  explicit RankFailure(const std::string& message) : Error(ErrorCode::kDevice, message) {}
};

// Sizes are in words of 32 bits, memory is that of the host. A call that throws leaves the communicator broken, and on
// a broken one every call throws at once.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name_of(int rank) const = 0;   // "rank 1 on node7"
  virtual int ranks_of_host() const = 0;             // on the machine that has the most of them
  virtual std::chrono::seconds timeout() const = 0;  // after which a rank that does not answer counts as lost
  virtual int cores() const = 0;                     // that are this rank's part of its machine

  // `all` is the parts of all ranks, back to back in their order, part_words of each. Each rank has written its own;
  // afterwards all of them are there, on every rank or on rank 0 alone.
  virtual void all_gather(void* all, std::span<const std::int64_t> part_words, Patience patience) = 0;
  virtual void gather_to_first(void* all, std::span<const std::int64_t> part_words) = 0;

  virtual void broadcast(void* data, std::int64_t words, Patience patience) = 0;  // what rank 0 has, to all
  virtual void barrier() = 0;

  // Of a rank that can no longer keep step: no call is made any more, and the job ends when the process does. From any
  // thread; a call that waits on another one then throws.
  virtual void break_off() noexcept = 0;
  virtual bool is_broken() const noexcept = 0;
  // Of a rank that is known to have ended or to be stopped, its name and that; else empty. From any thread, also while
  // no call is made.
  virtual std::string lost_rank() const = 0;
  // Rank 0 knows that it cannot go on, and says why; as far as that can be seen from here, also after it has ended.
  virtual bool leader_speaks() const noexcept = 0;
  [[noreturn]] virtual void abort() noexcept = 0;  // ends all ranks at once, in an error
};

// What ranks exchange on a device's stream, without the host: enqueued as kernels are, and captured with them in
// graphs.

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
