#include "cli/ranks.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/option_values.hpp"
#include "parallel/communicator.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::array<std::string_view, 5> kSplitCommands = {"generate", "serve", "stress", "bench model",
                                                            "bench engine"};
constexpr std::chrono::seconds kForTheLeader{10};  // to tell what happened and to end the job
constexpr std::chrono::milliseconds kBetweenSignals{20};
constexpr int kStoppedEarly = 128 + kStopOfRanks;  // of mpirun, where the signal came before the ranks served

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < text.size(); at += arguments.back().size() + 1)
    arguments.emplace_back(text, at, text.find('\0', at) - at);
  return arguments;
}

std::vector<std::string> mpirun_words(int ranks) {
  const std::vector<std::string> own = own_arguments();
  require(std::ranges::find(own, ":") == own.end(),
          "mpirun takes the argument ':' for its own; join it to its option, as in --stop=:");
  if (isatty(STDOUT_FILENO) != 1) setenv("NO_COLOR", "1", 0);  // mpirun gives rank 0 a terminal, whoever reads it
  std::vector<std::string> words = {"mpirun", "--quiet", "--oversubscribe", "--bind-to", "none"};
  // Ranks of this machine exchange results through its memory, and open no port to other machines.
  words.insert(words.end(), {"--host", fmt::format("localhost:{}", ranks)});
  words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "self,vader"});
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), {"-n", std::to_string(ranks)});
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), own.begin() + 1, own.end());
  return words;
}

[[noreturn]] void become_mpirun(std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp("mpirun", pointers.data());
  fail(ErrorCode::kUnsupported,
       "mpirun, which starts the ranks, cannot be run ({}); on Debian: apt install openmpi-bin", std::strerror(errno));
}

int result_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// mpirun says nothing where it cannot write what rank 0 has printed, as on a full disk. So it writes to this process.
[[noreturn]] void pass_on_output_of_mpirun(const std::vector<std::string>& words) {
  std::array<int, 2> ends = {};
  require(pipe(ends.data()) == 0, "there is no pipe for mpirun: {}", std::strerror(errno));
  const pid_t child = fork();
  require(child >= 0, "mpirun cannot be started: {}", std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    for (const int end : ends) close(end);
    become_mpirun(words);
  }
  close(ends[1]);
  std::signal(SIGINT, SIG_IGN);  // the terminal tells mpirun, too, which ends the ranks
  bool is_written = true;
  std::array<char, 1 << 16> text;
  for (ssize_t bytes = 0; (bytes = read(ends[0], text.data(), text.size())) > 0;)
    for (ssize_t at = 0; is_written && at < bytes;) {
      const ssize_t written = write(STDOUT_FILENO, text.data() + at, static_cast<std::size_t>(bytes - at));
      is_written = written > 0 || errno == EINTR;
      at += std::max<ssize_t>(written, 0);
    }
  int status = 0;
  waitpid(child, &status, 0);
  require(is_written, "stdout cannot be written");
  std::_Exit(result_of(status));
}

// A signal that mpirun passes on before there are ranks is lost.
bool has_ranks(pid_t mpirun) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", mpirun));
  int one = 0;
  return !children.is_open() || children >> one;
}

// mpirun kills its ranks when it is told to stop, so it is a child, out of reach of the terminal, and gets a signal
// that it passes on to them instead.
[[noreturn]] void supervise_mpirun(const std::vector<std::string>& words) {
  sigset_t signals, none;
  sigemptyset(&signals);
  sigemptyset(&none);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const pid_t child = fork();
  require(child >= 0, "mpirun cannot be started: {}", std::strerror(errno));
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &none, nullptr);  // what it passes on must reach it
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    become_mpirun(words);
  }
  // The first signal lets rank 0 finish, the second lets it break off, the third ends mpirun with all ranks.
  bool stopped_early = false;
  for (int asked = 0;;) {
    int number = 0;
    sigwait(&signals, &number);
    if (number != SIGCHLD) {
      stopped_early = stopped_early || !has_ranks(child);
      kill(child, ++asked > 2 || stopped_early ? SIGTERM : kStopOfRanks);
    }
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != child) continue;
    const int result = result_of(status);
    std::_Exit(stopped_early || (asked > 0 && result == kStoppedEarly) ? EXIT_SUCCESS : result);
  }
}

// What all ranks have found, or who is lost, rank 0 tells; it mostly ends this process, too.
[[noreturn]] void end_after_leader(const std::string& message, std::chrono::seconds patience = kForTheLeader) {
  std::this_thread::sleep_for(patience);
  fmt::print(stderr, "reprofuse: {}\n", message);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

void add_rank_options(CLI::App& command, RankArguments& arguments) {
  command
      .add_option("--tensor-parallel", arguments.tensor_parallel,
                  "Processes that share the model and its work, started through mpirun. No bit depends on their number")
      ->check(whole_number(1, 1024))
      ->type_name("N");
  command
      .add_option("--rank-timeout", arguments.timeout_seconds,
                  "Seconds after which a process that does not answer the others counts as lost")
      ->check(whole_number(1, 86400))
      ->type_name("N")
      ->capture_default_str();
}

std::shared_ptr<model::Team> open_team(const RankArguments& arguments, const StopSignals* signals) {
  const auto mpi = parallel::mpi_rank();
  const int wanted = arguments.tensor_parallel;
  if (!mpi && wanted > 1) {
    if (signals != nullptr) supervise_mpirun(mpirun_words(wanted));
    pass_on_output_of_mpirun(mpirun_words(wanted));
  }
  const int ranks = mpi ? mpi->ranks : 1;
  require(wanted == 0 || wanted == ranks, "mpirun has started {} ranks, and --tensor-parallel asks for {}", ranks,
          wanted);
  if (ranks == 1) return nullptr;
  const std::jthread until_all_have_met([&](const std::stop_token& met) {
    while (signals != nullptr && !met.stop_requested())
      if (signals->wait(kBetweenSignals) != 0) end_before_serving();
  });
  return std::make_shared<model::Team>(parallel::open_mpi(std::chrono::seconds(arguments.timeout_seconds)), kVersion);
}

bool run_as_follower(const std::shared_ptr<model::Team>& team, const model::MakeModel& make_model) {
  if (!team || team->leads()) return false;
  const std::string self = team->communicator().name_of(team->rank());
  try {
    model::follow(*team, make_model);
  } catch (const model::AgreedError& error) {
    end_after_leader(error.what());
  } catch (const parallel::RankFailure& error) {
    const bool leader_is_lost = std::string_view(error.what()).starts_with(team->communicator().name_of(0));
    const bool tells_in_its_place =
        leader_is_lost && team->rank() == 1 && !team->communicator().leader_reported_failure();
    end_after_leader(fmt::format("{}: {}", self, error.what()),
                     tells_in_its_place ? std::chrono::seconds(0) : kForTheLeader);
  } catch (const std::exception& error) {
    fmt::print(stderr, "reprofuse: {}: {}\n", self, error.what());
    std::fflush(stderr);
    team->communicator().abort();
  }
  return true;
}

void end_before_serving() {
  std::fflush(nullptr);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, kStopOfRanks);
  std::signal(kStopOfRanks, SIG_DFL);
  std::raise(kStopOfRanks);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  std::_Exit(EXIT_FAILURE);
}

bool is_follower() {
  const auto mpi = parallel::mpi_rank();
  return mpi && mpi->rank > 0;
}

void require_one_rank_unless_split(const std::string& command) {
  const auto mpi = parallel::mpi_rank();
  const auto is_split = [&](std::string_view name) { return command.starts_with(name); };
  require(!mpi || mpi->ranks == 1 || std::ranges::any_of(kSplitCommands, is_split),
          "{} computes on one rank, and mpirun has started {}; on several run {}", command, mpi ? mpi->ranks : 1,
          fmt::join(kSplitCommands, ", "));
}

}  // namespace reprofuse::cli
