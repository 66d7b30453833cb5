// Gathers between GPUs by NCCL, which is found at run time, so that nothing here depends on it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "parallel/communicator.hpp"

namespace reprofuse::parallel::nccl {

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

}  // namespace reprofuse::parallel::nccl

namespace reprofuse::parallel {

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
