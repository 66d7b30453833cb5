// A library with NCCL's interface for ranks that are threads of one process, in host memory, on the streams of
// host_backend.hpp. It fails on demand. Without a function or of another version where it is compiled so.
#include "parallel/stand_in_nccl.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallel/communicator.hpp"
#include "support/host_queue.hpp"

#ifndef STAND_IN_VERSION
#define STAND_IN_VERSION 22803
#endif

namespace reprofuse::parallel {
namespace {

namespace n = nccl;

enum class Kind { kGather, kBroadcast, kSend, kReceive };

struct Op {
  Kind kind;
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;  // or root
};
using Ops = std::vector<Op>;

// The ranks of one id. In a round each shows what it does, and takes from the others what it is to get.
class Group {
 public:
  explicit Group(int size) : shown_(static_cast<std::size_t>(size)) {}

  void play(int rank, const Ops& ops, bool alters) {
    std::unique_lock lock(mutex_);
    if (is_aborted_) return;
    shown_[static_cast<std::size_t>(rank)] = &ops;
    const std::int64_t round = round_;
    if (++arrived_ == shown_.size()) {
      copying_ = std::exchange(arrived_, 0);
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || is_aborted_; });
    if (round_ == round) return;
    lock.unlock();
    for (std::size_t i = 0; i < ops.size(); ++i) take(rank, i, alters);
    lock.lock();
    if (--copying_ == 0) changed_.notify_all();
    changed_.wait(lock, [&] { return copying_ == 0; });
  }

  // Not while a round is played: who aborts may then free what the others read.
  void abort() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return copying_ == 0; });
    is_aborted_ = true;
    changed_.notify_all();
  }
  bool is_aborted() {
    const std::lock_guard lock(mutex_);
    return is_aborted_;
  }

 private:
  void take(int rank, std::size_t at, bool alters) const {
    const Op& op = (*shown_[static_cast<std::size_t>(rank)])[at];
    const auto copy = [&](void* to, const void* from) {
      std::memcpy(to, from, op.bytes);
      if (alters) static_cast<std::uint32_t*>(to)[0] ^= 1U;
    };
    if (op.kind == Kind::kGather)
      for (std::size_t other = 0; other < shown_.size(); ++other)
        if (static_cast<int>(other) != rank)
          copy(static_cast<char*>(op.to) + other * op.bytes, (*shown_[other])[at].from);
    if (op.kind == Kind::kBroadcast && op.peer != rank)
      copy(op.to, (*shown_[static_cast<std::size_t>(op.peer)])[at].from);
    if (op.kind == Kind::kReceive)
      for (const Op& sent : *shown_[static_cast<std::size_t>(op.peer)])
        if (sent.kind == Kind::kSend && sent.peer == rank) copy(op.to, sent.from);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const Ops*> shown_;
  std::size_t arrived_ = 0, copying_ = 0;  // ranks, of a round
  std::int64_t round_ = 0;
  bool is_aborted_ = false;
};

struct Member {
  std::shared_ptr<Group> group;
  int rank;
};

struct Library {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, int> failures;  // by call and rank
  std::map<std::string, int> calls;
  std::map<std::string, std::shared_ptr<Group>> groups;
  std::vector<std::unique_ptr<Member>> aborted;  // kept: what was captured may still name them
  int ids = 0;
  bool alters = false;
};

Library& library() {
  static Library one;
  return one;
}

int result_of(const char* call, int rank) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  ++all.calls[call];
  for (const int who : {rank, -1})
    if (const auto found = all.failures.find({call, who}); found != all.failures.end()) return found->second;
  return n::kSuccess;
}

struct GroupCalls {
  int depth = 0;
  Ops ops;
  Member* member = nullptr;
  void* stream = nullptr;
};
thread_local GroupCalls group_calls;

void enqueue_round() {
  Member* member = group_calls.member;
  if (member == nullptr) return;
  test::enqueue(group_calls.stream, [member, ops = std::move(group_calls.ops)] {
    member->group->play(member->rank, ops, library().alters);
  });
  group_calls = {};
}

int add(const char* call, n::Comm comm, void* stream, const Op& op) {
  auto* member = static_cast<Member*>(comm);
  if (const int failed = result_of(call, member->rank); failed != n::kSuccess) return failed;
  group_calls.member = member;
  group_calls.stream = stream;
  group_calls.ops.push_back(op);
  if (group_calls.depth == 0) enqueue_round();
  return n::kSuccess;
}

}  // namespace
}  // namespace reprofuse::parallel

using namespace reprofuse::parallel;

extern "C" {

void stand_in_fail(const char* call, int rank, int result) {
  const std::lock_guard lock(library().mutex);
  library().failures[{call, rank}] = result;
}
void stand_in_alter(bool alters) {
  library().alters = alters;
}
void stand_in_reset() {
  const std::lock_guard lock(library().mutex);
  library().failures.clear();
  library().calls.clear();
  library().alters = false;
}
int stand_in_calls(const char* call) {
  const std::lock_guard lock(library().mutex);
  return library().calls[call];
}

int ncclGetVersion(int* version) {
  *version = STAND_IN_VERSION;
  return result_of("ncclGetVersion", -1);
}
int ncclGetUniqueId(n::UniqueId* id) {
  const std::string text = [] {
    const std::lock_guard lock(library().mutex);
    return "id " + std::to_string(library().ids++);
  }();
  text.copy(id->internal.data(), id->internal.size());
  return result_of("ncclGetUniqueId", -1);
}
int ncclCommInitRank(n::Comm* comm, int ranks, n::UniqueId id, int rank) {
  if (const int failed = result_of("ncclCommInitRank", rank); failed != n::kSuccess) return failed;
  const std::lock_guard lock(library().mutex);
  auto& group = library().groups[id.internal.data()];
  if (!group) group = std::make_shared<Group>(ranks);
  *comm = new Member{group, rank};
  return n::kSuccess;
}
int ncclCommDestroy(n::Comm comm) {
  delete static_cast<Member*>(comm);
  return result_of("ncclCommDestroy", -1);
}
int ncclCommAbort(n::Comm comm) {
  auto* member = static_cast<Member*>(comm);
  member->group->abort();
  {
    const std::lock_guard lock(library().mutex);
    library().aborted.emplace_back(member);
  }
  return result_of("ncclCommAbort", member->rank);
}
int ncclCommGetAsyncError(n::Comm comm, int* result) {
  auto* member = static_cast<Member*>(comm);
  *result = result_of("async", member->rank);
  if (*result == n::kSuccess && member->group->is_aborted()) *result = n::kRemoteError;
  return result_of("ncclCommGetAsyncError", member->rank);
}
const char* ncclGetErrorString(int result) {
  return result == n::kSystemError   ? "unhandled system error"
         : result == n::kRemoteError ? "remote process exited or there was a network error"
                                     : "another error";
}
const char* ncclGetLastError(n::Comm) {
  return "the stand-in was asked to";
}
int ncclAllGather(const void* from, void* to, std::size_t count, int, n::Comm comm, void* stream) {
  return add("ncclAllGather", comm, stream, {Kind::kGather, from, to, count * 4, 0});
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int, int root, n::Comm comm, void* stream) {
  return add("ncclBroadcast", comm, stream, {Kind::kBroadcast, from, to, count * 4, root});
}
#ifndef STAND_IN_WITHOUT_SEND
int ncclSend(const void* from, std::size_t count, int, int peer, n::Comm comm, void* stream) {
  return add("ncclSend", comm, stream, {Kind::kSend, from, nullptr, count * 4, peer});
}
#endif
int ncclRecv(void* to, std::size_t count, int, int peer, n::Comm comm, void* stream) {
  return add("ncclRecv", comm, stream, {Kind::kReceive, nullptr, to, count * 4, peer});
}
int ncclGroupStart() {
  ++group_calls.depth;
  return result_of("ncclGroupStart", -1);
}
int ncclGroupEnd() {
  const int result = result_of("ncclGroupEnd", -1);
  if (--group_calls.depth == 0 && result == n::kSuccess) enqueue_round();
  if (result != n::kSuccess) group_calls = {};
  return result;
}
}
