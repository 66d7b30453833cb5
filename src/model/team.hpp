// The ranks of a model: which share of it each computes, and how rank 0, which leads, says what the others are to do;
// they follow (follow() in follow.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/config.hpp"
#include "parallel/communicator.hpp"

namespace reprofuse::kernels {
class Backend;
}

namespace reprofuse::model {

struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return first + count; }
  Range times(std::int64_t unit) const { return {first * unit, count * unit}; }
  bool operator==(const Range&) const = default;
};

// What rank number `rank` of `ranks` has of so many: as even as possible, the larger ranges first.
Range range_of(std::int64_t total, int rank, int ranks);

// What one rank computes of a model. A rank owns outputs and computes each over all of its inputs, so the
// order of every sum is that of one rank alone.
struct Share {
  int ranks = 1;
  Range heads;         // of queries
  Range kv_heads;      // that these look at; of several ranks where there are more ranks than such heads
  Range hidden;        // outputs of o_proj and down_proj
  Range intermediate;  // outputs of gate_proj and up_proj
  Range vocabulary;    // rows of the embedding and of the head
};

// Throws kUnsupported, saying how many ranks are possible, where some would have nothing.
void require_ranks(const checkpoint::ModelConfig& config, int ranks);
Share share_of(const checkpoint::ModelConfig& config, int rank, int ranks);
std::vector<Share> shares_of(const checkpoint::ModelConfig& config, int ranks);

// An error that every rank has found alike. Rank 0 tells it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

enum class Command : std::int32_t { kEnd, kMakeModel, kDropModel, kMakeRunner, kDropRunner, kPass };

// What a rank has exchanged with the others, since it began.
struct RankTraffic {
  std::int64_t passes = 0;
  std::int64_t gathered_bytes = 0;      // of results, that came from the others
  std::int64_t waited_nanoseconds = 0;  // for the others, in gathers
};

// How results of ranks reach each other: on the stream of their devices, or through the memory of the host.
struct GatherTransport {
  std::unique_ptr<parallel::StreamCommunicator> on_stream;  // null: through host memory
  std::string description;                                  // "by NCCL 2.28.3, on the stream"
  int ranks_of_device = 1;                                  // the most that share one device
  std::string devices;                                      // of all ranks, that it was chosen for
};

class Team {
 public:
  // Version: of the program; ranks must have the same.
  Team(std::unique_ptr<parallel::Communicator> communicator, std::string version)
      : communicator_(std::move(communicator)), version_(std::move(version)) {}
  ~Team();  // the leader's: the others may go
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool leads() const { return communicator_->rank() == 0; }
  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  const std::string& version() const { return version_; }
  parallel::Communicator& communicator() const { return *communicator_; }

  // Words of the leader to the others: a command, the number of the thing that it is about, and what it takes.
  struct Message {
    Command command = Command::kEnd;
    std::int32_t number = 0;
    std::vector<std::int32_t> words;
  };
  void tell(const Message& message);
  Message hear();

  std::int32_t next_number() { return next_number_++; }  // of a model or a runner

  // Throws AgreedError, naming the first line that differs and where, unless all ranks have the same lines. A line is a
  // name, a space and a value.
  void require_same(const std::string& lines);
  // Throws AgreedError, on every rank, where the leader has found something wrong.
  void require_of_leader(const std::string& problem);

  // What all ranks have, in their order.
  std::vector<std::string> exchange(const std::string& own);

  // Of the model that was made last.
  const GatherTransport& gather_transport() const { return gather_transport_; }
  void set_gather_transport(GatherTransport transport) { gather_transport_ = std::move(transport); }
  parallel::StreamCommunicator* on_stream() const { return gather_transport_.on_stream.get(); }

  // This rank's own, for the thread that computes; and what all ranks had after the last pass, for any thread.
  RankTraffic& own_traffic() { return own_traffic_; }
  void keep_traffic(const std::vector<RankTraffic>& of_all);
  std::vector<RankTraffic> traffic() const;

 private:
  std::unique_ptr<parallel::Communicator> communicator_;
  std::string version_;
  GatherTransport gather_transport_;
  std::int32_t next_number_ = 0;
  RankTraffic own_traffic_;
  mutable std::mutex traffic_mutex_;
  std::vector<RankTraffic> traffic_;
};

// All ranks together. By NCCL where each of them has a device of its own and the same NCCL, and through the host where
// several share a device, which NCCL does not allow, or one has none.
void choose_gather_transport(Team& team, const kernels::Backend& backend);

// Where a model stands: in a team, or alone. `recipe` tells the others which model to make.
struct TeamPlace {
  std::shared_ptr<Team> team = {};
  std::int32_t recipe = 0;
};

// Made by the leader, and by every other rank with it: they drop theirs when this goes.
class MirroredObject {
 public:
  MirroredObject(std::shared_ptr<Team> team, Command make, Command drop, std::vector<std::int32_t> words)
      : team_(std::move(team)), drop_(drop), number_(team_->next_number()) {
    team_->tell({make, number_, std::move(words)});
  }
  ~MirroredObject();
  MirroredObject(const MirroredObject&) = delete;
  MirroredObject& operator=(const MirroredObject&) = delete;

  std::int32_t number() const { return number_; }

 private:
  std::shared_ptr<Team> team_;
  Command drop_;
  std::int32_t number_;
};

// While it lives, the ranks make calls that must match: an exception out of it leaves them out of step for good.
class InStep {
 public:
  explicit InStep(Team* team) : team_(team) {}
  ~InStep() {
    if (team_ != nullptr) team_->communicator().break_off();
  }
  InStep(const InStep&) = delete;
  InStep& operator=(const InStep&) = delete;
  void finish() { team_ = nullptr; }

 private:
  Team* team_;
};

}  // namespace reprofuse::model
