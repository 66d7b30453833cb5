#include "cli/bench_model_command.hpp"

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/device_options.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "study/bench_model.hpp"

namespace reprofuse::cli {
namespace {

struct BenchModelArguments {
  std::string shape = "llama-3.2-1b";
  std::vector<std::int64_t> batches = {1};
  std::int64_t context = 1024;
  int steps = 20;
  std::vector<std::string> numerics = {std::string(kDefaultNumerics)};
  DeviceArguments device;
  std::string json;
};

void print_row(const study::ModelBenchRow& row, double bandwidth) {
  fmt::print("{:<12} {:>5} {:>8} {:>9.3f} {:>9.3f} {:>9.1f} {:>7.2f} {:>9.0f}\n", row.numerics, row.batch, row.context,
             row.step.median * 1e3, row.step.p90 * 1e3, row.tokens_per_second(), row.bytes_per_second() / bandwidth,
             row.prefill_per_second);
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const study::ModelBenchRow& row) {
  return {{"numerics", row.numerics},
          {"batch", row.batch},
          {"context", row.context},
          {"step_seconds", row.step.median},
          {"step_seconds_p90", row.step.p90},
          {"tokens_per_second", row.tokens_per_second()},
          {"weight_bytes", row.weight_bytes},
          {"kv_bytes", row.kv_bytes},
          {"prefill_tokens_per_second", row.prefill_per_second}};
}

void run_bench_model(BenchModelArguments arguments) {
  const study::ModelBenchOptions options{.config = study::published_shape(arguments.shape),
                                         .batches = arguments.batches,
                                         .context = arguments.context,
                                         .steps = arguments.steps};
  const Terminal terminal;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  double bandwidth = 0;
  for (const std::string& numerics : arguments.numerics) {
    arguments.device.numerics = numerics;
    const Context context = make_context(arguments.device);
    if (rows.empty()) {
      bandwidth = study::streaming_bandwidth(context);
      fmt::print("{} with random weights on {}; a streaming read takes {:.0f} GB/s\n\n", arguments.shape,
                 context.description(), bandwidth / 1e9);
      fmt::print("{:<12} {:>5} {:>8} {:>9} {:>9} {:>9} {:>7} {:>9}\n", "numerics", "batch", "context", "step ms", "p90",
                 "tokens/s", "of read", "prefill/s");
    }
    terminal.progress(fmt::format("{}: making {} ...", numerics, arguments.shape));
    study::bench_model(context, options, [&](const study::ModelBenchRow& row) {
      terminal.clear_progress();
      print_row(row, bandwidth);
      rows.push_back(to_json(row));
      terminal.progress(fmt::format("{} ...", numerics));
    });
    terminal.clear_progress();
  }
  if (arguments.json.empty()) return;
  std::ofstream file(arguments.json);
  file << nlohmann::ordered_json{{"version", kVersion}, {"shape", arguments.shape}, {"read", bandwidth}, {"rows", rows}}
              .dump(2)
       << '\n';
  file.close();
  require(file.good(), "{} cannot be written", arguments.json);
}

}  // namespace

void add_bench_model_command(CLI::App& bench) {
  auto arguments = std::make_shared<BenchModelArguments>();
  CLI::App* command = bench.add_subcommand("model", "One decode step of a whole model with random weights");
  command->add_option("--shape", arguments->shape, fmt::format("One of {}", fmt::join(study::published_shapes(), ", ")))
      ->capture_default_str();
  command->add_option("--batch", arguments->batches, "Texts that go on side by side")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--context", arguments->context, "Tokens of each text before the steps that are timed")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "Steps timed")->check(CLI::Range(1, 10000))->capture_default_str();
  add_device_options(*command, arguments->device);
  command->remove_option(command->get_option("--numerics"));
  command->add_option("--numerics", arguments->numerics, fmt::format("Of {}", fmt::join(numerics_names(), ", ")))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--json", arguments->json, "Also write the results to this file");
  command->callback([arguments] { run_bench_model(*arguments); });
}

}  // namespace reprofuse::cli
