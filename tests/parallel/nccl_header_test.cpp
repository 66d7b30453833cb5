// Compiled where there is an nccl.h: what src/parallel/communicator.hpp declares is what NCCL has.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "parallel/communicator.hpp"

namespace reprofuse::parallel::nccl {
namespace {

// Enums and handles are passed as int and as pointers; all else is the same.
template <typename T>
struct Plain {
  using Type = T;
};
template <>
struct Plain<ncclResult_t> {
  using Type = int;
};
template <>
struct Plain<ncclDataType_t> {
  using Type = int;
};
template <>
struct Plain<ncclResult_t*> {
  using Type = int*;
};
template <>
struct Plain<ncclUniqueId> {
  using Type = UniqueId;
};
template <>
struct Plain<ncclUniqueId*> {
  using Type = UniqueId*;
};
template <>
struct Plain<ncclComm_t> {
  using Type = Comm;
};
template <>
struct Plain<ncclComm_t*> {
  using Type = Comm*;
};
template <>
struct Plain<cudaStream_t> {
  using Type = Stream;
};

template <typename Function>
struct Plained;
template <typename Result, typename... Arguments>
struct Plained<Result(Arguments...)> {
  using Type = typename Plain<Result>::Type(typename Plain<Arguments>::Type...);
};
template <typename Declared, typename Ours>
constexpr bool kSame = std::is_same_v<typename Plained<Declared>::Type, Ours>;

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && alignof(UniqueId) == alignof(ncclUniqueId));
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int));
static_assert(kSuccess == ncclSuccess && kSystemError == ncclSystemError && kInternalError == ncclInternalError);
static_assert(kInvalidUsage == ncclInvalidUsage && kRemoteError == ncclRemoteError && kInProgress == ncclInProgress);
static_assert(kUint32 == ncclUint32);
static_assert(kSame<decltype(ncclGetVersion), GetVersion>);
static_assert(kSame<decltype(ncclGetUniqueId), GetUniqueId>);
static_assert(kSame<decltype(ncclCommInitRank), CommInitRank>);
static_assert(kSame<decltype(ncclCommDestroy), CommDestroy>);
static_assert(kSame<decltype(ncclCommAbort), CommAbort>);
static_assert(kSame<decltype(ncclCommGetAsyncError), CommGetAsyncError>);
static_assert(kSame<decltype(ncclGetErrorString), GetErrorString>);
static_assert(kSame<decltype(ncclGetLastError), GetLastError>);
static_assert(kSame<decltype(ncclAllGather), AllGather>);
static_assert(kSame<decltype(ncclBroadcast), Broadcast>);
static_assert(kSame<decltype(ncclSend), Send>);
static_assert(kSame<decltype(ncclRecv), Recv>);
static_assert(kSame<decltype(ncclGroupStart), GroupCall> && kSame<decltype(ncclGroupEnd), GroupCall>);
static_assert(!kSame<decltype(ncclSend), Recv>, "the control");

}  // namespace
}  // namespace reprofuse::parallel::nccl
