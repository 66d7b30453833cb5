#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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
#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "ops/context_state.hpp"
#include "study/bench/engine.hpp"
#include "study/bench/model.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::uint64_t kWeightSeed = 1;

// What throughputs are compared with where it is among the numerics.
std::string_view baseline() {
  return baselines().front().name;
}

struct BenchEngineArguments {
  std::string shape = "llama-3.2-1b";
  std::string model;  // empty: random weights of that shape
  study::EngineBenchOptions options{.batches = {1, 8, 32, 64}};
  std::vector<std::string> numerics;  // empty: the default of the device
  DeviceArguments device;
  RankArguments ranks;
  std::string json;
};

using Rows = std::vector<study::EngineBenchRow>;

std::string subject_of(const BenchEngineArguments& arguments) {
  if (arguments.model.empty()) return arguments.shape + " with random weights";
  return std::filesystem::canonical(arguments.model).filename().string();
}

std::shared_ptr<const model::WeightSource> make_source(const BenchEngineArguments& arguments, const Context& context) {
  if (!arguments.model.empty()) return engine::ModelFiles(arguments.model).source();
  const checkpoint::ModelConfig shape = study::published_shape(arguments.shape);
  if (context.state().backend->capabilities().shares_host_memory)
    return std::make_shared<study::RandomSource>(shape, DType::kBF16, kWeightSeed);
  return std::make_shared<study::RepeatedSource>(shape, DType::kBF16, kWeightSeed);
}

// A number, or a dash where there is none.
std::string shown(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

void print_header(const BenchEngineArguments& arguments, const std::string& subject, const std::string& device) {
  const study::EngineBenchOptions& options = arguments.options;
  fmt::print("{} on {}{}\n", subject, device, default_note(arguments.numerics, arguments.device.device));
  fmt::print(
      "A batch of requests at once: each a prompt of {} tokens and an answer of {}, up to {} tokens in a pass{}\n",
      options.prompt, options.tokens, options.max_rows,
      options.speculation > 0 ? fmt::format(", up to {} of them guesses per answer", options.speculation) : "");
  fmt::print("tokens/s: of answers, from the arrival of the batch to its last token\n");
  fmt::print("decode/s, step: of passes in which every answer goes on; model: the same step by the model alone\n");
  fmt::print("outside: the part of a step that is not the model's; below 0 where noise was larger than it\n");
  fmt::print("prefill/s: of prompts, until every answer has begun; first: the median wait for a first token\n");
  fmt::print("moved: answers unlike those that an earlier batch gave to the same requests\n\n");
  fmt::print("{:<12} {:>5} {:>9} {:>9} {:>8} {:>9} {:>8} {:>9} {:>9} {:>7}\n", "numerics", "batch", "tokens/s",
             "decode/s", "step ms", "model ms", "outside", "prefill/s", "first ms", "moved");
}

void print_row(const study::EngineBenchRow& row) {
  constexpr double kMilliseconds = 1e3;
  std::optional<double> step, model, decode, outside;
  if (row.decode) {
    step = row.decode->median * kMilliseconds;
    decode = row.decode_per_second;
  }
  if (row.model_step) model = *row.model_step * kMilliseconds;
  if (row.outside_model()) outside = *row.outside_model() * 100;
  fmt::print("{:<12} {:>5} {:>9.1f} {:>9} {:>8} {:>9} {:>8} {:>9.0f} {:>9.1f} {:>7}\n", row.numerics, row.batch,
             row.tokens_per_second(), shown(decode, 1), shown(step, 3), shown(model, 3),
             outside ? shown(outside, 1) + "%" : "-", row.prefill_per_second, row.first_token * kMilliseconds,
             row.compared_answers > 0 ? fmt::format("{}/{}", row.changed_answers, row.compared_answers) : "-");
  std::fflush(stdout);
}

// Tokens per second end to end over the baseline's at the same batch; none where it was not measured.
std::optional<double> ratio_to_baseline(const Rows& rows, const study::EngineBenchRow& row) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const study::EngineBenchRow& other) {
    return other.numerics == baseline() && other.batch == row.batch;
  });
  if (found == rows.end()) return std::nullopt;
  return row.tokens_per_second() / found->tokens_per_second();
}

void print_ratios(const Rows& rows, const BenchEngineArguments& arguments) {
  const std::vector<std::string>& numerics = arguments.numerics;
  if (numerics.size() < 2 || std::find(numerics.begin(), numerics.end(), baseline()) == numerics.end()) return;
  fmt::print("\nTimes the tokens/s of {}\n{:<12}", baseline(), "batch");
  for (const std::int64_t batch : arguments.options.batches) fmt::print(" {:>7}", batch);
  for (const std::string& name : numerics) {
    fmt::print("\n{:<12}", name);
    for (const study::EngineBenchRow& row : rows)
      if (row.numerics == name) fmt::print(" {:>7}", shown(ratio_to_baseline(rows, row), 2));
  }
  fmt::print("\n");
}

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json to_json(const Rows& rows, const study::EngineBenchRow& row) {
  nlohmann::ordered_json decode = nullptr;
  if (row.decode)
    decode = {{"median_s", row.decode->median},
              {"fastest_s", row.decode->fastest},
              {"p90_s", row.decode->p90},
              {"tokens_per_second", row.decode_per_second}};
  return {{"numerics", row.numerics},
          {"pins_bits", find_numerics(row.numerics).is_contract()},
          {"batch", row.batch},
          {"seconds", row.seconds},
          {"output_tokens", row.output_tokens},
          {"tokens_per_second", row.tokens_per_second()},
          {"times_baseline", or_null(ratio_to_baseline(rows, row))},
          {"decode_pass", decode},
          {"model_step_s", or_null(row.model_step)},
          {"outside_model", or_null(row.outside_model())},
          {"prefill_tokens_per_second", row.prefill_per_second},
          {"first_token_s", row.first_token},
          {"guessed_tokens", row.guessed_tokens},
          {"accepted_tokens", row.accepted_tokens},
          {"compared_answers", row.compared_answers},
          {"changed_answers", row.changed_answers}};
}

void write_json(OutputFile& file, const BenchEngineArguments& arguments, const std::string& device, const Rows& rows) {
  nlohmann::ordered_json root = {{"version", kVersion},
                                 {"model", subject_of(arguments)},
                                 {"device", device},
                                 {"prompt", arguments.options.prompt},
                                 {"tokens", arguments.options.tokens},
                                 {"max_rows", arguments.options.max_rows},
                                 {"speculation", arguments.options.speculation},
                                 {"baseline", baseline()},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (const study::EngineBenchRow& row : rows) root["rows"].push_back(to_json(rows, row));
  file.write(root.dump(2) + "\n");
}

void run_bench_engine(const BenchEngineArguments& arguments) {
  const std::vector<std::int64_t>& batches = arguments.options.batches;
  const std::int64_t largest = *std::max_element(batches.begin(), batches.end());
  if (arguments.options.max_rows < largest)
    throw CLI::ValidationError("--max-rows", fmt::format("{} is below the batch of {}: each answer needs a row",
                                                         arguments.options.max_rows, largest));
  const auto team = open_team(arguments.ranks);
  const std::vector<Context> contexts = make_contexts(arguments.device, arguments.numerics, team);
  const auto make_share = [&](std::int32_t context) {
    const Context& own = contexts[static_cast<std::size_t>(context)];
    return study::make_engine_bench_model(own, make_source(arguments, own), arguments.options, {}, {team, context});
  };
  if (run_as_follower(team, make_share)) return;
  OutputFile json(arguments.json);
  const std::shared_ptr<const model::WeightSource> source = make_source(arguments, contexts.front());
  require(arguments.options.prompt + arguments.options.tokens <= source->config().max_positions,
          "a prompt of {} tokens and an answer of {} do not fit into the {} of the model", arguments.options.prompt,
          arguments.options.tokens, source->config().max_positions);
  const std::string device =
      (team ? fmt::format("{} ranks, each ", team->size()) : "") + contexts.front().description();
  const Terminal terminal;
  Rows rows;
  print_header(arguments, subject_of(arguments), device);
  const OtherLoadWarning other_load(takes_threads(arguments.device.device));
  for (std::int32_t index = 0; const Context& context : contexts) {
    const auto print_progress = [&](std::string_view doing) {
      terminal.progress(fmt::format("{}: {} ...", context.numerics(), doing));
    };
    const auto take_row = [&](const study::EngineBenchRow& row) {
      terminal.clear_progress();
      print_row(row);
      rows.push_back(row);
    };
    const auto model =
        study::make_engine_bench_model(context, source, arguments.options, print_progress, {team, index++});
    study::bench_engine(*model, arguments.options, {.on_row = take_row, .on_progress = print_progress});
  }
  print_ratios(rows, arguments);
  other_load.print();
  write_json(json, arguments, device, rows);
}

}  // namespace

void add_bench_engine_command(CLI::App& bench) {
  auto arguments = std::make_shared<BenchEngineArguments>();
  study::EngineBenchOptions& options = arguments->options;
  CLI::App* command = bench.add_subcommand("engine", "The serving engine with many requests at once, end to end");
  CLI::Option* shape = command->add_option("--shape", arguments->shape, "Random weights of a published shape")
                           ->check(one_of(study::published_shapes()))
                           ->type_name("NAME")
                           ->capture_default_str();
  command->add_option("--model", arguments->model, "Folder of a model instead")->type_name("DIR")->excludes(shape);
  add_number_list(*command, "--batch", options.batches, engine::kMaxBatch, "Requests that come at once");
  command->add_option("--prompt", options.prompt, "Tokens of each prompt: random, and different from the others'")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->capture_default_str();
  command->add_option("--tokens", options.tokens, "Tokens of each answer: the likeliest, whatever they are")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->capture_default_str();
  command->add_option("--max-rows", options.max_rows, "Tokens in one pass; longer prompts take several")
      ->check(whole_number<std::int64_t>(1, engine::kMaxPassRows))
      ->capture_default_str();
  command->add_option("--speculate", options.speculation, "Tokens guessed ahead per answer and checked in one pass")
      ->check(whole_number(0, engine::kMaxSpeculation))
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  add_rank_options(*command, arguments->ranks);
  add_numerics_list(*command, arguments->numerics, "Any of");
  add_output_file(*command, "--json", arguments->json, "Also write the results to this file");
  command->callback([arguments] { run_bench_engine(*arguments); });
}

}  // namespace reprofuse::cli
