#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/bench_load.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/option_values.hpp"
#include "cli/output_file.hpp"
#include "cli/ranks.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "ops/contract.hpp"
#include "study/bench/model.hpp"

namespace reprofuse::cli {
namespace {

struct BenchModelArguments {
  std::string shape = "llama-3.2-1b";
  std::vector<std::int64_t> batches = {1};
  std::vector<std::int64_t> prompts;
  std::int64_t context = 1024;
  std::int64_t prefill_rows = 1024;
  int steps = 20;
  std::vector<std::string> numerics;  // empty: the default of the device
  DeviceArguments device;
  std::string as;  // empty: the device itself
  RankArguments ranks;
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
          {"pins_bits", find_numerics(row.numerics).is_contract()},
          {"batch", row.batch},
          {"context", row.context},
          {"step_seconds", row.step.median},
          {"step_seconds_p90", row.step.p90},
          {"tokens_per_second", row.tokens_per_second()},
          {"weight_bytes", row.weight_bytes},
          {"kv_bytes", row.kv_bytes},
          {"prefill_tokens_per_second", row.prefill_per_second}};
}

// The weights of all ranks are read by all of them at once, and so is what they are compared with.
double read_of_all_ranks(const Context& context, const std::shared_ptr<model::Team>& team) {
  if (!team) return study::streaming_bandwidth(context);
  team->communicator().barrier();
  double all = 0;
  for (const std::string& one : team->exchange(fmt::format("{}", study::streaming_bandwidth(context))))
    all += std::stod(one);
  return all;
}

void check_lengths(const BenchModelArguments& arguments) {
  const std::int64_t longest = arguments.context + arguments.steps + study::kWarmUpSteps;
  check_usage(
      longest <= study::kPublishedPositions,
      fmt::format("--context {} and --steps {}, with {} to warm up, make texts of {} tokens; the shapes have {} "
                  "positions",
                  arguments.context, arguments.steps, study::kWarmUpSteps, longest, study::kPublishedPositions));
}

void run_bench_model(const BenchModelArguments& arguments) {
  check_lengths(arguments);
  act_as(arguments.as, arguments.device.device);
  const study::ModelBenchOptions options{.config = study::published_shape(arguments.shape),
                                         .batches = arguments.batches,
                                         .prompts = arguments.prompts,
                                         .context = arguments.context,
                                         .prefill_rows = arguments.prefill_rows,
                                         .steps = arguments.steps};
  const auto team = open_team(arguments.ranks);
  const std::vector<Context> contexts = make_contexts(arguments.device, arguments.numerics, team);
  const auto make_share = [&](std::int32_t context) {
    return study::make_bench_model(contexts[static_cast<std::size_t>(context)], options, {team, context});
  };
  const double bandwidth = read_of_all_ranks(contexts.front(), team);
  if (run_as_follower(team, make_share)) return;
  OutputFile json(arguments.json);
  const Terminal terminal;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  nlohmann::ordered_json prompts = nlohmann::ordered_json::array();
  fmt::print("{} with random weights on {}{}{}\nA streaming read {}takes {:.0f} GB/s\n\n", arguments.shape,
             team ? fmt::format("{} ranks, each ", team->size()) : "", contexts.front().description(),
             default_note(arguments.numerics, arguments.device.device), team ? "by all of them " : "", bandwidth / 1e9);
  fmt::print("{:<12} {:>5} {:>8} {:>9} {:>9} {:>9} {:>7} {:>9}\n", "numerics", "batch", "context", "step ms", "p90",
             "tokens/s", "of read", "prefill/s");
  const OtherLoadWarning other_load(takes_threads(arguments.device.device));
  for (std::int32_t index = 0; const Context& context : contexts) {
    terminal.progress(fmt::format("{}: making {} ...", context.numerics(), arguments.shape));
    const auto model = study::make_bench_model(context, options, {team, index++});
    study::bench_model(*model, options, [&](const study::ModelBenchRow& row) {
      terminal.clear_progress();
      print_row(row, bandwidth);
      rows.push_back(to_json(row));
      terminal.progress(fmt::format("{} ...", context.numerics()));
    });
    study::bench_prompts(*model, options, [&](const study::PromptBenchRow& row) {
      terminal.clear_progress();
      fmt::print("{:<12} prompt {:>7} tokens {:>42.0f}\n", row.numerics, row.tokens, row.tokens_per_second);
      std::fflush(stdout);
      prompts.push_back(
          {{"numerics", row.numerics}, {"tokens", row.tokens}, {"tokens_per_second", row.tokens_per_second}});
    });
    terminal.clear_progress();
  }
  other_load.print();
  const nlohmann::ordered_json root = {
      {"version", kVersion}, {"shape", arguments.shape}, {"read", bandwidth}, {"rows", rows}, {"prompts", prompts}};
  json.write(root.dump(2) + "\n");
}

}  // namespace

void add_bench_model_command(CLI::App& bench) {
  auto arguments = std::make_shared<BenchModelArguments>();
  CLI::App* command = bench.add_subcommand("model", "One decode step of a whole model with random weights");
  command->add_option("--shape", arguments->shape, "Random weights of a published shape")
      ->check(one_of(study::published_shapes()))
      ->type_name("NAME")
      ->capture_default_str();
  add_number_list(*command, "--batch", arguments->batches, engine::kMaxBatch, "Texts that go on side by side");
  command->add_option("--context", arguments->context, "Tokens of each text before the steps that are timed")
      ->check(whole_number<std::int64_t>(1, study::kPublishedPositions))
      ->capture_default_str();
  add_number_list(*command, "--prompt", arguments->prompts, study::kPublishedPositions,
                  "Also time the prefill of one prompt of N tokens");
  command->add_option("--prefill-rows", arguments->prefill_rows, "Tokens of prompts in one pass")
      ->check(whole_number<std::int64_t>(1, study::kPublishedPositions))
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "Steps timed")->check(whole_number(1, 10000))->capture_default_str();
  add_device_options(*command, arguments->device);
  add_as_option(*command, arguments->as);
  add_rank_options(*command, arguments->ranks);
  add_numerics_list(*command, arguments->numerics, "Any of");
  add_output_file(*command, "--json", arguments->json, "Also write the results to this file");
  command->callback([arguments] { run_bench_model(*arguments); });
}

}  // namespace reprofuse::cli
