// Processes that compute one model together: its ranks. Rank 0 leads. All ranks make the same calls in the same order.
// No sum is ever taken between ranks: what they exchange are results, and those arrive as they were sent.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "reprofuse/error.hpp"

namespace reprofuse::parallel {

// How long a call waits for the other ranks: a while, after which one of them counts as lost, or as long as it takes,
// where another may be loading a model or have nothing to do.
enum class Wait { kBounded, kEndless };

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
  virtual int cores() const = 0;                     // of its machine that this rank may use

  // `all` is what the ranks have, back to back in their order, rank_words of each. Each rank has written its own;
  // afterwards all of them are there, on every rank or on rank 0 alone.
  virtual void all_gather(void* all, std::span<const std::int64_t> rank_words, Wait limit) = 0;
  virtual void gather_to_first(void* all, std::span<const std::int64_t> rank_words) = 0;

  virtual void broadcast(void* data, std::int64_t words, Wait limit) = 0;  // what rank 0 has, to all
  virtual void barrier() = 0;

  // Of a rank that can no longer keep step: no call is made any more, and the job ends when the process does. From any
  // thread; a call that waits on another one then throws.
  virtual void break_off() noexcept = 0;
  virtual bool is_broken() const noexcept = 0;
  // Of a rank that is known to have ended or to be stopped, its name and that; else empty. From any thread, also while
  // no call is made.
  virtual std::string lost_rank() const = 0;
  // Rank 0 cannot go on and has said why, or is about to; as far as that can be seen from here, also after it has
  // ended.
  virtual bool leader_reported_failure() const noexcept = 0;
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
  virtual void all_gather(void* all, std::span<const std::int64_t> rank_words, void* stream) = 0;
  virtual void gather_to_first(void* all, std::span<const std::int64_t> rank_words, void* stream) = 0;
  virtual void broadcast(void* data, std::int64_t words, void* stream) = 0;
  // What is enqueued after it waits until all ranks have come to it; `words` is room for one word of each rank.
  virtual void barrier(void* words, void* stream) = 0;

  // Throws where what was enqueued has failed, here or on another rank.
  virtual void check() = 0;
  // What is enqueued ends, with whatever has come. Nothing can be enqueued any more.
  virtual void abort() noexcept = 0;
};

// Communicators over MPI. The code that calls MPI is a module of its own, loaded when it is asked for, so that neither
// the tool nor the library needs MPI where it runs alone.

// What mpirun tells a process that it starts, in its environment.
struct MpiRank {
  int rank = 0;
  int ranks = 1;
};
std::optional<MpiRank> mpi_rank();  // none: nobody has started this process as a rank

// All processes that mpirun has started. Once per process. A rank that does not answer for `timeout` counts as lost.
// Throws kUnsupported, with the reason, where the build has no module or the machine no MPI.
std::unique_ptr<Communicator> open_mpi(std::chrono::seconds timeout);

inline constexpr const char* kMpiLibrary = "libmpi.so.40";  // of Open MPI, as Debian has it
inline constexpr const char* kMpiModule = "libreprofuse_mpi.so";
inline constexpr const char* kMpiModuleEntry = "reprofuse_open_mpi";
using OpenMpiModule = Communicator*(int timeout_seconds);

// Which cores of a machine are whose, where several ranks run on it.

// A bit for each core that a process may run on.
using CoreSet = std::array<std::uint64_t, 16>;

inline CoreSet own_cores() {
  static_assert(sizeof(CoreSet) == sizeof(cpu_set_t));
  CoreSet cores = {};
  if (sched_getaffinity(0, sizeof(cores), reinterpret_cast<cpu_set_t*>(cores.data())) != 0) cores = {};
  return cores;
}

// How many cores one of the ranks of a machine takes, at least one: those of its set, each divided by the ranks that
// may run there. So ranks that share a socket, or all of a machine, have one thread per core together.
inline int cores_of_rank(std::span<const CoreSet> ranks, std::size_t own) {
  constexpr double kRounding = 1e-9;
  double cores = 0;
  for (std::size_t word = 0; word < CoreSet{}.size(); ++word)
    for (std::uint64_t left = ranks[own][word]; left != 0; left &= left - 1) {
      const std::uint64_t core = std::uint64_t{1} << std::countr_zero(left);
      const auto has_core = [&](const CoreSet& set) { return (set[word] & core) != 0; };
      cores += 1.0 / static_cast<double>(std::ranges::count_if(ranks, has_core));
    }
  return std::max(1, static_cast<int>(cores + kRounding));
}

// Gathers between GPUs by NCCL, which is found at run time, so that nothing here depends on it.

namespace nccl {

// The part of nccl.h that is called, so that a build needs no NCCL. A test compares it with nccl.h where that is there.

struct UniqueId {  // ncclUniqueId
  std::array<char, 128> internal;
};
using Comm = void*;    // ncclComm_t
using Stream = void*;  // cudaStream_t

// ncclResult_t
inline constexpr int kSuccess = 0, kSystemError = 2, kInternalError = 3, kInvalidUsage = 5, kRemoteError = 6,
                     kInProgress = 7;
inline constexpr int kUint32 = 3;  // ncclDataType_t

using GetVersion = int(int* version);
using GetUniqueId = int(UniqueId* id);
using CommInitRank = int(Comm* comm, int ranks, UniqueId id, int rank);
using CommDestroy = int(Comm comm);
using CommAbort = int(Comm comm);
using CommGetAsyncError = int(Comm comm, int* result);
using GetErrorString = const char*(int result);
using GetLastError = const char*(Comm comm);
using AllGather = int(const void* from, void* to, std::size_t count, int type, Comm comm, Stream stream);
using Broadcast = int(const void* from, void* to, std::size_t count, int type, int root, Comm comm, Stream stream);
using Send = int(const void* from, std::size_t count, int type, int peer, Comm comm, Stream stream);
using Recv = int(void* to, std::size_t count, int type, int peer, Comm comm, Stream stream);
using GroupCall = int();  // ncclGroupStart and ncclGroupEnd

}  // namespace nccl

// The library's functions. Its threads may outlive a communicator, so it stays in memory.
struct NcclLibrary {
  // Throws kUnsupported, with the reason and what to install, where there is none, or one that is too old.
  explicit NcclLibrary(const std::string& file);
  // By the file that REPROFUSE_NCCL_LIBRARY in the environment names, or as libnccl.so.2 where the system finds it.
  NcclLibrary();

  std::string version_text() const;  // "2.28.3"
  std::string why(int result, nccl::Comm comm) const;

  std::string file;
  void* handle;
  nccl::GetVersion* get_version;
  nccl::GetUniqueId* get_unique_id;
  nccl::CommInitRank* comm_init_rank;
  nccl::CommDestroy* comm_destroy;
  nccl::CommAbort* comm_abort;
  nccl::CommGetAsyncError* comm_get_async_error;
  nccl::GetErrorString* get_error_string;
  nccl::GetLastError* get_last_error;
  nccl::AllGather* all_gather;
  nccl::Broadcast* broadcast;
  nccl::Send* send;
  nccl::Recv* recv;
  nccl::GroupCall* group_start;
  nccl::GroupCall* group_end;
  int version = 0;
};

// All ranks together, each with the device current that is its own. The id that they meet by goes over `host`. Where
// one of them fails, all throw RankFailure and name it.
std::unique_ptr<StreamCommunicator> open_nccl(std::shared_ptr<const NcclLibrary> library, Communicator& host);

}  // namespace reprofuse::parallel
