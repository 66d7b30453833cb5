// Several ranks: processes that compute one model together, started by mpirun, or by the tool through mpirun.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "cli/stop_signals.hpp"
#include "model/follow.hpp"
#include "model/team.hpp"

namespace reprofuse::cli {

struct RankArguments {
  int tensor_parallel = 0;  // 0: as many as mpirun has started, or one alone
  int timeout_seconds = 60;
};

void add_rank_options(CLI::App& command, RankArguments& arguments);

// Before anything else of a command. Null: this process computes alone. Where --tensor-parallel asks for ranks that
// nobody has started, mpirun starts them, and this does not return: the process writes what they print, and ends as
// they do. mpirun kills the ranks when it is told to stop; of a command with `signals`, which finishes first, rank 0
// gets the signal below instead. One that comes while the ranks meet ends them.
std::shared_ptr<model::Team> open_team(const RankArguments& arguments, const StopSignals* signals = nullptr);

inline constexpr int kStopOfRanks = SIGUSR1;  // which mpirun passes on

// On a rank beside the first: does what rank 0 tells it until the end, and returns true; it may end the process. False
// on rank 0 and where there are no ranks.
bool run_as_follower(const std::shared_ptr<model::Team>& team, const model::MakeModel& make_model);

// Of a rank that a signal has stopped before there is anything to finish: ends the job by that signal, and the process
// that waits for mpirun knows it as the end that was asked for.
[[noreturn]] void end_before_serving();

bool is_follower();  // mpirun has started this process as a rank beside the first, which speaks for all

// Throws where several ranks were started for a command that computes on one.
void require_one_rank_unless_split(const std::string& command);

}  // namespace reprofuse::cli
