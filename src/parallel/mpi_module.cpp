// The module that calls MPI. It is linked with nothing: MPI's symbols come from the library that open_mpi() has loaded.
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "parallel/communicator.hpp"

namespace reprofuse::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kPingTag = 1, kPongTag = 2;
// How a wait goes on: tests without a pause, and longer where each rank has a core; then short pauses, then longer
// ones. No sched_yield(): on a busy machine it gives the processor away for a whole round, while a sleeper is woken at
// once.
constexpr microseconds kSpin{5}, kSpinOnOwnCore{100};
constexpr microseconds kShortSleep{20};
constexpr milliseconds kLongWait{100};  // from then on nothing is in a hurry
constexpr milliseconds kLongSleep{1};
constexpr unsigned long kTimerSlack = 1'000;  // nanoseconds by which a sleep may be longer; 50,000 by default
constexpr milliseconds kBetweenLooks{100};    // at the other ranks, while waiting for them
constexpr milliseconds kTimeToAnswer{2'000};  // for a rank that is alive and waits as well

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(std::chrono::seconds timeout) : timeout_(timeout) {
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
      throw Error(ErrorCode::kUnsupported, "MPI cannot be started");
    for (MPI_Comm* own : {&results_, &signs_of_life_}) check(MPI_Comm_dup(MPI_COMM_WORLD, own), "MPI_Comm_dup");
    if (provided < MPI_THREAD_SERIALIZED)
      throw Error(ErrorCode::kUnsupported, "this MPI lets one thread alone call it (MPI_THREAD_FUNNELED)");
    check(MPI_Comm_rank(results_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(results_, &size_), "MPI_Comm_size");
    for (MPI_Comm own : {results_, signs_of_life_})
      check(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    meet_peers();
  }

  // Without MPI_Finalize, which would wait for ranks that are lost: mpirun then ends them.
  ~MpiCommunicator() override {
    if (is_broken_) return;
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name_of(int rank) const override {
    return "rank " + std::to_string(rank) + " on " + peers_[static_cast<std::size_t>(rank)].host.data();
  }

  int ranks_of_host() const override { return ranks_of_host_; }
  int cores() const override { return cores_; }
  std::chrono::seconds timeout() const override { return timeout_; }

  void all_gather(void* all, std::span<const std::int64_t> rank_words, Wait limit) override {
    require_step();
    lay_out(rank_words);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_UINT32_T, all, counts_.data(), offsets_.data(), MPI_UINT32_T, results_,
                          &request),
          "MPI_Iallgatherv");
    wait(request, limit, "MPI_Iallgatherv");
  }

  void gather_to_first(void* all, std::span<const std::int64_t> rank_words) override {
    require_step();
    lay_out(rank_words);
    const auto own = static_cast<std::size_t>(rank_);
    const void* own_words = rank_ == 0 ? MPI_IN_PLACE : static_cast<const std::uint32_t*>(all) + offsets_[own];
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Igatherv(own_words, counts_[own], MPI_UINT32_T, all, counts_.data(), offsets_.data(), MPI_UINT32_T, 0,
                       results_, &request),
          "MPI_Igatherv");
    wait(request, Wait::kBounded, "MPI_Igatherv");
  }

  void broadcast(void* data, std::int64_t words, Wait limit) override {
    require_step();
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(data, count_of(words), MPI_UINT32_T, 0, results_, &request), "MPI_Ibcast");
    wait(request, limit, "MPI_Ibcast");
  }

  void barrier() override {
    require_step();
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(results_, &request), "MPI_Ibarrier");
    wait(request, Wait::kBounded, "MPI_Ibarrier");
  }

  void break_off() noexcept override {
    is_broken_ = true;
    if (rank_ == 0) report_failure();
  }
  bool is_broken() const noexcept override { return is_broken_; }

  std::string lost_rank() const override {
    for (int rank = 0; rank < size_; ++rank) {
      const Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (peer.watched == 0) continue;
      const bool has_gone = has_ended(peer);
      if (!has_gone && !is_stopped_for_long(rank)) continue;
      if (rank_ == 0) report_failure();
      return name_of(rank) + " (process " + std::to_string(peer.process) + ") has " +
             (has_gone ? "ended" : "not answered for " + std::to_string(timeout_.count()) + " s: it is stopped");
    }
    return {};
  }

  bool leader_reported_failure() const noexcept override {
    return word_ != nullptr && std::atomic_ref(*word_).load() != 0;
  }

  [[noreturn]] void abort() noexcept override {
    is_broken_ = true;
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    std::_Exit(EXIT_FAILURE);
  }

 private:
  struct Peer {
    std::array<char, 64> host;
    CoreSet cores;
    std::int64_t process;
    std::int64_t word;     // of rank 0: the descriptor of memory for all of its machine, which outlives the process
    std::int64_t watched;  // it is a process that this rank can see
  };

  [[noreturn]] void lose(const std::string& message) {
    is_broken_ = true;
    if (rank_ == 0) report_failure();
    throw RankFailure(message);
  }

  // What the others are about to do is not known any more, so no call of theirs would match one of this rank.
  void require_step() {
    if (is_broken_) lose("the ranks are out of step");
  }

  void check(int status, const char* call) {
    require_step();
    if (status == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
    int length = 0;
    MPI_Error_string(status, text.data(), &length);
    lose(std::string(call) + " failed: " + text.data());
  }

  int count_of(std::int64_t words) {
    if (words < 0 || words > INT_MAX) lose("MPI moves at most 8 GiB at a time: take fewer rows in a pass");
    return static_cast<int>(words);
  }

  void lay_out(std::span<const std::int64_t> rank_words) {
    counts_.clear();
    offsets_.clear();
    std::int64_t offset = 0;
    for (const std::int64_t words : rank_words) {
      counts_.push_back(count_of(words));
      offsets_.push_back(count_of(offset));
      offset += words;
    }
  }

  // Where the others run, so that messages can say it and those of this machine can be watched.
  void meet_peers() {
    peers_.resize(static_cast<std::size_t>(size_));
    stopped_since_ = std::make_unique<std::atomic<Clock::rep>[]>(peers_.size());
    Peer own = {.host = {}, .cores = own_cores(), .process = getpid(), .word = -1, .watched = 0};
    if (rank_ == 0) own.word = memfd_create("reprofuse", MFD_CLOEXEC);
    if (rank_ == 0 && own.word >= 0 && ftruncate(static_cast<int>(own.word), sizeof(int)) == 0)
      map_word(static_cast<int>(own.word));
    gethostname(own.host.data(), own.host.size() - 1);
    check(MPI_Allgather(&own, sizeof(Peer), MPI_BYTE, peers_.data(), sizeof(Peer), MPI_BYTE, results_),
          "MPI_Allgather");
    for (int rank = 0; rank < size_; ++rank) {
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      peer.watched = rank != rank_ && peer.host == own.host && !has_ended(peer) ? 1 : 0;
    }
    for (const Peer& peer : peers_)
      ranks_of_host_ = std::max(ranks_of_host_, static_cast<int>(std::ranges::count(peers_, peer.host, &Peer::host)));
    std::vector<CoreSet> of_host = {own.cores};
    for (int rank = 0; rank < size_; ++rank)
      if (const Peer& peer = peers_[static_cast<std::size_t>(rank)]; rank != rank_ && peer.host == own.host)
        of_host.push_back(peer.cores);
    cores_ = cores_of_rank(of_host, 0);
    if (peers_[0].watched != 0 && peers_[0].word >= 0) {
      const std::string place = "/proc/" + std::to_string(peers_[0].process) + "/fd/" + std::to_string(peers_[0].word);
      if (const int file = open(place.c_str(), O_RDWR | O_CLOEXEC); file >= 0) map_word(file);
    }
    const auto beside = std::ranges::count(peers_, 1, &Peer::watched);
    if (beside < static_cast<std::int64_t>(std::thread::hardware_concurrency())) spin_ = kSpinOnOwnCore;
  }

  // Where it cannot be had, a message may come twice.
  void map_word(int file) {
    void* memory = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) word_ = static_cast<int*>(memory);
  }
  void report_failure() const noexcept {
    if (word_ != nullptr) std::atomic_ref(*word_).store(1);
  }

  static bool has_ended(const Peer& peer) { return kill(static_cast<pid_t>(peer.process), 0) != 0 && errno == ESRCH; }

  // By SIGSTOP. One that was stopped within a call of MPI may hold up the others within theirs.
  bool is_stopped_for_long(int rank) const {
    std::array<char, 256> text{};
    const std::string place = "/proc/" + std::to_string(peers_[static_cast<std::size_t>(rank)].process) + "/stat";
    if (const int file = open(place.c_str(), O_RDONLY | O_CLOEXEC); file >= 0) {
      if (read(file, text.data(), text.size() - 1) < 0) text[0] = '\0';
      close(file);
    }
    const std::string_view all = text.data();
    const std::size_t name_end = all.rfind(')');  // "7 (name) T ..."
    const bool is_stopped = name_end != std::string_view::npos && all.substr(name_end).starts_with(") T");
    std::atomic<Clock::rep>& since = stopped_since_[static_cast<std::size_t>(rank)];
    const Clock::rep now = Clock::now().time_since_epoch().count();
    if (!is_stopped) since = 0;
    Clock::rep first = 0;
    if (is_stopped && since.compare_exchange_strong(first, now)) first = now;
    return is_stopped && Clock::duration(now - first) > timeout_;
  }

  // Never blocks in MPI: a rank that waits looks after the others, and leaves the processor to them.
  void wait(MPI_Request& request, Wait limit, const char* call) {
    const auto begin = Clock::now();
    auto next_look = begin + kBetweenLooks;
    while (true) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
      if (done != 0) return;
      const auto now = Clock::now();
      if (now - begin < spin_) continue;
      if (now >= next_look) {
        look_after_peers();
        next_look = now + kBetweenLooks;
        if (limit == Wait::kBounded && now - begin > longest_wait()) find_lost_rank();
      }
      prctl(PR_SET_TIMERSLACK, kTimerSlack);  // of this thread, which need not be the one of the call before
      std::this_thread::sleep_for(now - begin < kLongWait ? kShortSleep : microseconds(kLongSleep));
    }
  }

  // Rank 0 finds out who is lost. The others give it the time to, in case that it is rank 0.
  Clock::duration longest_wait() const {
    return rank_ == 0 ? Clock::duration(timeout_) : 2 * timeout_ + 5 * kTimeToAnswer;
  }

  void look_after_peers() {
    if (const std::string lost = lost_rank(); !lost.empty()) lose(lost);
    int asked = 0;
    MPI_Status status;
    while (MPI_Iprobe(MPI_ANY_SOURCE, kPingTag, signs_of_life_, &asked, &status) == MPI_SUCCESS && asked != 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kPingTag, signs_of_life_, MPI_STATUS_IGNORE);
      MPI_Send(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kPongTag, signs_of_life_);
    }
  }

  // Whoever waits answers, so who does not is the one that all wait for.
  [[noreturn]] void find_lost_rank() {
    if (rank_ != 0) lose(name_of(0) + " is lost, or does not say who is");
    const std::string waited = " for " + std::to_string(timeout_.count()) + " s";
    std::vector<bool> answered(static_cast<std::size_t>(size_), false);
    answered[0] = true;
    for (int rank = 1; rank < size_; ++rank) {
      MPI_Request sent = MPI_REQUEST_NULL;
      MPI_Isend(nullptr, 0, MPI_BYTE, rank, kPingTag, signs_of_life_, &sent);
      MPI_Request_free(&sent);
    }
    for (const auto end = Clock::now() + kTimeToAnswer; Clock::now() < end;) {
      int has_come = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, kPongTag, signs_of_life_, &has_come, &status);
      if (has_come == 0) {
        std::this_thread::sleep_for(kLongSleep);
        continue;
      }
      MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kPongTag, signs_of_life_, MPI_STATUS_IGNORE);
      answered[static_cast<std::size_t>(status.MPI_SOURCE)] = true;
    }
    std::string lost;
    for (int rank = 1; rank < size_; ++rank)
      if (!answered[static_cast<std::size_t>(rank)]) lost += (lost.empty() ? "" : ", ") + name_of(rank);
    lose((lost.empty() ? "some rank" : lost) + " has not answered" + waited);
  }

  std::chrono::seconds timeout_;
  microseconds spin_ = kSpin;
  MPI_Comm results_ = MPI_COMM_NULL;
  MPI_Comm signs_of_life_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int ranks_of_host_ = 1;
  int cores_ = 1;
  std::vector<Peer> peers_;
  std::unique_ptr<std::atomic<Clock::rep>[]> stopped_since_;  // of each rank; 0: it is not
  int* word_ = nullptr;                                       // not 0: rank 0 reported its failure
  std::vector<int> counts_, offsets_;                         // in words, of a gather
  std::atomic<bool> is_broken_ = false;
};

}  // namespace
}  // namespace reprofuse::parallel

extern "C" __attribute__((visibility("default"))) reprofuse::parallel::Communicator* reprofuse_open_mpi(
    int timeout_seconds) {
  return new reprofuse::parallel::MpiCommunicator(std::chrono::seconds(timeout_seconds));
}
