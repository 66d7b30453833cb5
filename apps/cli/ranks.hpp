// Several ranks: processes that compute one model together, started by mpirun, or by the tool through mpirun.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "model/follow.hpp"
#include "model/team.hpp"

namespace reprofuse::cli {

struct RankArguments {
  int tensor_parallel = 0;  // 0: as many as mpirun has started, or one alone
  int timeout_seconds = 60;
};

void add_rank_options(CLI::App& command, RankArguments& arguments);

// Before anything else of a command. Null: this process computes alone. Where --tensor-parallel asks for ranks that
// nobody has started, the process becomes mpirun, which starts them, and this does not return. mpirun kills the ranks
// when it is told to stop; of a command that finishes first, the process waits for mpirun and sends rank 0 the signal
// below instead.
enum class OnStop { kDie, kFinish };
std::shared_ptr<model::Team> open_team(const RankArguments& arguments, OnStop on_stop = OnStop::kDie);

inline constexpr int kStopOfRanks = SIGUSR1;  // which mpirun passes on

// True on every rank beside the first, after it has followed to the end.
bool follows(const std::shared_ptr<model::Team>& team, const model::MakeModel& make_model);

bool is_follower();          // mpirun has started this process as a rank beside the first, which speaks for all
int threads_of_this_rank();  // its part of the machine's cores

// Throws where several ranks were started for a command that computes on one.
void require_one_rank_unless_split(const std::string& command);

}  // namespace reprofuse::cli
