// The part of nccl.h that is called, so that a build needs no NCCL. A test compares it with nccl.h where that is there.
#pragma once

#include <array>
#include <cstddef>

namespace reprofuse::parallel::nccl {

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
