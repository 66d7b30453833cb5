#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "parallel/communicator.hpp"

namespace reprofuse::parallel {
namespace {

constexpr const char* kDefaultFile = "libnccl.so.2";
constexpr const char* kFileVariable = "REPROFUSE_NCCL_LIBRARY";
constexpr int kMinVersion = 21300;  // from which on an error of another rank is told apart from those of this one

std::string file_of_environment() {
  const char* file = std::getenv(kFileVariable);
  return file != nullptr && *file != '\0' ? file : kDefaultFile;
}

void* open_library(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    fail(ErrorCode::kUnsupported,
         "{} cannot be loaded ({}); it comes with NVIDIA's package libnccl2, and {} may name its file", file, dlerror(),
         kFileVariable);
  return library;
}

template <typename Function>
void find(const NcclLibrary& library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library.handle, name));
  if (function == nullptr) fail(ErrorCode::kUnsupported, "{} has no {}", library.file, name);
}

class NcclCommunicator final : public StreamCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, Communicator& host)
      : library_(std::move(library)), rank_(host.rank()), size_(host.size()), name_(host.name_of(host.rank())) {
    meet(host, library_->comm_init_rank(&comm_, size_, exchange_id(host), rank_));
  }

  // Of a communicator that has failed, destroying would wait for the others.
  ~NcclCommunicator() override {
    if (comm_ != nullptr && !is_aborted_) library_->comm_destroy(comm_);
  }

  std::string description() const override { return fmt::format("NCCL {}", library_->version_text()); }

  // Where all ranks have as many words, one call. NCCL has none for others: there each rank sends its own to all, as a
  // group.
  void all_gather(void* all, std::span<const std::int64_t> rank_words, void* stream) override {
    require_whole();
    auto* at = static_cast<std::uint32_t*>(all);
    if (std::ranges::all_of(rank_words, [&](std::int64_t words) { return words == rank_words[0]; })) {
      const auto words = static_cast<std::size_t>(rank_words[0]);
      if (words == 0) return;
      return check_call(
          library_->all_gather(at + static_cast<std::size_t>(rank_) * words, at, words, nccl::kUint32, comm_, stream),
          "ncclAllGather");
    }
    in_group([&] {
      for (int root = 0; root < size_; ++root) {
        const auto words = static_cast<std::size_t>(rank_words[static_cast<std::size_t>(root)]);
        if (words > 0)
          check_call(library_->broadcast(at, at, words, nccl::kUint32, root, comm_, stream), "ncclBroadcast");
        at += words;
      }
    });
  }

  void gather_to_first(void* all, std::span<const std::int64_t> rank_words, void* stream) override {
    require_whole();
    auto* at = static_cast<std::uint32_t*>(all);
    in_group([&] {
      for (int rank = 0; rank < size_; ++rank) {
        const auto words = static_cast<std::size_t>(rank_words[static_cast<std::size_t>(rank)]);
        if (words > 0 && rank != 0 && rank_ == 0)
          check_call(library_->recv(at, words, nccl::kUint32, rank, comm_, stream), "ncclRecv");
        if (words > 0 && rank != 0 && rank_ == rank)
          check_call(library_->send(at, words, nccl::kUint32, 0, comm_, stream), "ncclSend");
        at += words;
      }
    });
  }

  void broadcast(void* data, std::int64_t words, void* stream) override {
    require_whole();
    check_call(library_->broadcast(data, data, static_cast<std::size_t>(words), nccl::kUint32, 0, comm_, stream),
               "ncclBroadcast");
  }

  void barrier(void* words, void* stream) override {
    all_gather(words, std::vector<std::int64_t>(static_cast<std::size_t>(size_), 1), stream);
  }

  void check() override {
    require_whole();
    int found = nccl::kSuccess;
    check_call(library_->comm_get_async_error(comm_, &found), "ncclCommGetAsyncError");
    if (found != nccl::kInProgress) check_call(found, "a gather by NCCL");
  }

  void abort() noexcept override {
    if (comm_ != nullptr && !is_aborted_.exchange(true)) library_->comm_abort(comm_);
  }

 private:
  [[noreturn]] void lose(const std::string& message) {
    abort();
    throw RankFailure(fmt::format("{}: {}", name_, message));
  }

  void require_whole() {
    if (is_aborted_) lose("gathers by NCCL were given up");
  }

  void check_call(int result, const char* call) {
    if (result == nccl::kSuccess) return;
    const char* where = result == nccl::kRemoteError ? ", on another rank or on the way to it" : "";
    lose(fmt::format("{} failed{}: {}", call, where, library_->why(result, comm_)));
  }

  // A group that was begun is ended, also where a call of it has failed.
  template <typename Calls>
  void in_group(const Calls& calls) {
    check_call(library_->group_start(), "ncclGroupStart");
    try {
      calls();
    } catch (...) {
      library_->group_end();
      throw;
    }
    check_call(library_->group_end(), "ncclGroupEnd");
  }

  // Rank 0 makes the id that all meet by. Where it cannot, the others learn that instead.
  nccl::UniqueId exchange_id(Communicator& host) {
    struct {
      std::int32_t result = nccl::kSuccess;
      nccl::UniqueId id = {};
    } message;
    static_assert(sizeof(message) % sizeof(std::uint32_t) == 0);
    if (rank_ == 0) message.result = library_->get_unique_id(&message.id);
    host.broadcast(&message, sizeof(message) / sizeof(std::uint32_t), Wait::kBounded);
    if (message.result != nccl::kSuccess)
      throw RankFailure(
          fmt::format("{}: ncclGetUniqueId failed: {}", host.name_of(0), library_->why(message.result, nullptr)));
    return message.id;
  }

  // All ranks have joined, or none goes on.
  void meet(Communicator& host, int own_result) {
    std::vector<std::int32_t> results(static_cast<std::size_t>(size_));
    results[static_cast<std::size_t>(rank_)] = own_result;
    host.all_gather(results.data(), std::vector<std::int64_t>(results.size(), 1), Wait::kBounded);
    const auto failed = std::ranges::find_if(results, [](std::int32_t result) { return result != nccl::kSuccess; });
    if (failed == results.end()) return;
    abort();
    throw RankFailure(fmt::format("{}: ncclCommInitRank failed: {}",
                                  host.name_of(static_cast<int>(failed - results.begin())),
                                  library_->why(*failed, nullptr)));
  }

  std::shared_ptr<const NcclLibrary> library_;
  int rank_, size_;
  std::string name_;
  nccl::Comm comm_ = nullptr;
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace

NcclLibrary::NcclLibrary() : NcclLibrary(file_of_environment()) {}

NcclLibrary::NcclLibrary(const std::string& name) : file(name), handle(open_library(name)) {
  find(*this, get_version, "ncclGetVersion");
  find(*this, get_unique_id, "ncclGetUniqueId");
  find(*this, comm_init_rank, "ncclCommInitRank");
  find(*this, comm_destroy, "ncclCommDestroy");
  find(*this, comm_abort, "ncclCommAbort");
  find(*this, comm_get_async_error, "ncclCommGetAsyncError");
  find(*this, get_error_string, "ncclGetErrorString");
  find(*this, all_gather, "ncclAllGather");
  find(*this, broadcast, "ncclBroadcast");
  find(*this, send, "ncclSend");
  find(*this, recv, "ncclRecv");
  find(*this, group_start, "ncclGroupStart");
  find(*this, group_end, "ncclGroupEnd");
  const int result = get_version(&version);
  require(result == nccl::kSuccess, "{}: ncclGetVersion failed: {}", file, get_error_string(result));
  if (version < kMinVersion || version / 10000 != kMinVersion / 10000)
    fail(ErrorCode::kUnsupported, "{} is NCCL {}; 2.13 or a later 2 is needed", file, version_text());
  find(*this, get_last_error, "ncclGetLastError");
}

std::string NcclLibrary::version_text() const {
  return version < 10000 ? fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100)
                         : fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string NcclLibrary::why(int result, nccl::Comm comm) const {
  const char* last = get_last_error(comm);
  const char* text = get_error_string(result);
  std::string reason = text == nullptr ? fmt::format("result {}", result) : text;
  if (last != nullptr && *last != '\0') reason += fmt::format(" ({})", last);
  return reason;
}

std::unique_ptr<StreamCommunicator> open_nccl(std::shared_ptr<const NcclLibrary> library, Communicator& host) {
  return std::make_unique<NcclCommunicator>(std::move(library), host);
}

}  // namespace reprofuse::parallel
