// reprofuse: the command line. Results go to stdout, everything else to stderr.
// Exit status: 0 done, 1 an error or a failed check, 2 a command line that makes no sense.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/ranks.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "reprofuse/error.hpp"

namespace reprofuse::cli {
namespace {

// "reprofuse probe": the deepest subcommand that the user typed, so that the hint is about it.
std::string typed_command(const CLI::App& app) {
  std::string command = "reprofuse";
  const CLI::App* at = &app;
  for (auto chosen = at->get_subcommands(); !chosen.empty(); chosen = at->get_subcommands()) {
    at = chosen.front();
    command += " " + at->get_name();
  }
  return command;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// "bench model": what stands before the first option.
std::string command_words(int argc, char** argv) {
  std::string words = argv[1];
  for (int i = 2; i < argc && argv[i][0] != '-'; ++i) words += fmt::format(" {}", argv[i]);
  return words;
}

int run(int argc, char** argv) {
  CLI::App app("LLM inference whose bits depend on the model and the tokens and on nothing else", "reprofuse");
  app.set_version_flag("--version", fmt::format("reprofuse {}", kVersion));
  add_generate_command(app);
  add_verify_command(app);
  add_keys_command(app);
  add_serve_command(app);
  add_probe_command(app);
  CLI::App* bench = app.add_subcommand("bench", "Measure speed or error beside the baselines, in one run");
  add_bench_linear_command(*bench);
  add_bench_model_command(*bench);
  add_bench_engine_command(*bench);
  add_bench_error_command(*bench);
  add_ablate_command(app);
  add_stress_command(app);
  add_study_command(app);
  add_trace_command(app);
  add_diff_command(app);
  add_info_command(app);
  refuse_unknown(app);
  try {
    const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty())
      throw CLI::ParseError(
          fmt::format("there is no command '{}'; there are {}", argv[1], fmt::join(command_names(app), ", ")), 2);
    if (argc > 1 && argv[1][0] != '-') require_one_rank_unless_split(command_words(argc, argv));
    app.parse(argc, argv);
    require(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "stdout cannot be written");
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::RuntimeError& status) {  // of a command that has said what it found
    return status.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (!is_follower()) fmt::print(stderr, "reprofuse: {}\nTry '{} --help'.\n", error.what(), typed_command(app));
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace reprofuse::cli

namespace {

const char* reason_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "there is not enough memory";
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  const bool is_thread = system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
  return is_thread ? "no more threads can be started, for which ulimit -v and ulimit -u allow too little"
                   : error.what();
}

}  // namespace

int main(int argc, char** argv) {
  reprofuse::cli::occupy_standard_descriptors();
  try {
    if (reprofuse::cli::is_follower()) std::freopen("/dev/null", "w", stdout);  // rank 0 has the results
    return reprofuse::cli::run(argc, argv);
  } catch (const std::exception& error) {
    constexpr std::chrono::milliseconds kPatience{1'000};             // whether anyone reads it or not, this is the end
    for (const char* part : {"reprofuse: ", reason_of(error), "\n"})  // which allocates nothing
      reprofuse::cli::write_patiently(STDERR_FILENO, part, kPatience);
    return 1;
  }
}
