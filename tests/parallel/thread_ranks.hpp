// Ranks as threads of one process, so that what ranks do can be tested without MPI and under sanitizers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model/follow.hpp"
#include "model/team.hpp"
#include "parallel/communicator.hpp"

namespace reprofuse::parallel {

// What the ranks share: a place where all meet, and where each shows its memory to the others.
class Meeting {
 public:
  explicit Meeting(int ranks) : shown_(static_cast<std::size_t>(ranks)) {}

  void show(int rank, void* memory) {
    {
      const std::lock_guard lock(mutex_);
      shown_[static_cast<std::size_t>(rank)] = static_cast<std::uint32_t*>(memory);
    }
    meet();
  }
  void meet() {
    std::unique_lock lock(mutex_);
    const std::int64_t round = round_;
    if (++arrived_ == static_cast<std::int64_t>(shown_.size())) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || broken_; });
    if (round_ == round) throw RankFailure("another rank has broken off");  // one that has left this meeting may have
  }
  void break_off() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }
  // Between two meetings, in which nobody shows anything else.
  const std::uint32_t* shown(int rank) const { return shown_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return static_cast<int>(shown_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint32_t*> shown_;
  std::int64_t arrived_ = 0, round_ = 0;
  bool broken_ = false;
};

// A change of what arrives, for tests that must notice: it gets the words of a whole gather.
using Alter = std::function<void(std::span<std::uint32_t> all)>;

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank, Alter alter = {})
      : meeting_(std::move(meeting)), rank_(rank), alter_(std::move(alter)) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->ranks(); }
  std::string name_of(int rank) const override { return "rank " + std::to_string(rank) + " on a thread"; }
  int ranks_of_host() const override { return size(); }
  int cores() const override { return 1; }
  std::chrono::seconds timeout() const override { return std::chrono::seconds(60); }

  void all_gather(void* all, std::span<const std::int64_t> rank_words, Wait) override { gather(all, rank_words, true); }
  void gather_to_first(void* all, std::span<const std::int64_t> rank_words) override {
    gather(all, rank_words, rank_ == 0);
  }
  void broadcast(void* data, std::int64_t words, Wait) override {
    meeting_->show(rank_, data);
    if (rank_ != 0) std::memcpy(data, meeting_->shown(0), static_cast<std::size_t>(words) * sizeof(std::uint32_t));
    meeting_->meet();
  }
  void barrier() override { meeting_->meet(); }
  void break_off() noexcept override {
    is_broken_ = true;
    meeting_->break_off();
  }
  bool is_broken() const noexcept override { return is_broken_; }
  std::string lost_rank() const override { return {}; }
  bool leader_reported_failure() const noexcept override { return false; }
  [[noreturn]] void abort() noexcept override { std::abort(); }

 private:
  void gather(void* all, std::span<const std::int64_t> rank_words, bool wants_all) {
    meeting_->show(rank_, all);
    std::int64_t offset = 0;
    for (int rank = 0; rank < size(); ++rank) {
      const std::int64_t words = rank_words[static_cast<std::size_t>(rank)];
      if (wants_all && rank != rank_ && words > 0)
        std::memcpy(static_cast<std::uint32_t*>(all) + offset, meeting_->shown(rank) + offset,
                    static_cast<std::size_t>(words) * sizeof(std::uint32_t));
      offset += words;
    }
    meeting_->meet();
    if (wants_all && alter_) alter_({static_cast<std::uint32_t*>(all), static_cast<std::size_t>(offset)});
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
  Alter alter_;
  bool is_broken_ = false;
};

// Each rank makes its share by `make_share`; the leader, on the calling thread, does `lead` with the team. What another
// rank throws beside an error that the leader has found as well is in the texts that come back.
using MakeShare = std::function<std::unique_ptr<model::Model>(const model::TeamPlace& place)>;

inline std::vector<std::string> with_ranks(int ranks, const MakeShare& make_share,
                                           const std::function<void(const std::shared_ptr<model::Team>&)>& lead,
                                           const Alter& alter = {}) {
  const auto meeting = std::make_shared<Meeting>(ranks);
  const auto make_team = [&](int rank) {
    return std::make_shared<model::Team>(std::make_unique<ThreadCommunicator>(meeting, rank, alter), "test");
  };
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> followers;
  for (int rank = 1; rank < ranks; ++rank)
    followers.emplace_back([&, rank] {
      const auto team = make_team(rank);
      try {
        model::follow(*team, [&](std::int32_t recipe) { return make_share({team, recipe}); });
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        team->communicator().break_off();
      }
    });
  lead(make_team(0));
  followers.clear();
  return errors;
}

}  // namespace reprofuse::parallel
