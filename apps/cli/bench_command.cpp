#include "cli/bench_command.hpp"

#include "cli/bench_engine_command.hpp"
#include "cli/bench_error_command.hpp"
#include "cli/bench_linear_command.hpp"
#include "cli/bench_model_command.hpp"

namespace reprofuse::cli {

void add_bench_command(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed or error beside the baselines, in one run");
  add_bench_linear_command(*bench);
  add_bench_model_command(*bench);
  add_bench_engine_command(*bench);
  add_bench_error_command(*bench);
}

}  // namespace reprofuse::cli
