#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/output_file.hpp"
#include "cli/terminal.hpp"
#include "engine/model_files.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "reprofuse/error.hpp"
#include "study/bench/error.hpp"

namespace reprofuse::cli {
namespace {

constexpr std::string_view kPrompt =
    "Tom has 3 boxes of 12 pens. He gives away 7 pens and then buys 10 more. How many pens does he have?";

struct BenchErrorArguments {
  std::vector<std::int64_t> k = {3072, 14336};
  std::vector<std::string> numerics;  // empty: each linear layer of its own that runs on the device
  std::optional<std::string> model;   // none: the bundled one
  DeviceArguments device;
  std::string json;
};

// What is measured, in the order of the columns.
struct Subjects {
  std::vector<std::string> names;
  std::vector<study::PrepareLinear> prepare;
  std::vector<Context> attention;  // those that have attention, or a cache, of their own
  std::string device;

  void add(const Context& context) {
    add_attention(context);
    names.emplace_back(context.numerics());
    prepare.push_back(study::kernels_of(context));
    device = context.description();
  }

 private:
  void add_attention(const Context& context) {
    const Numerics& numerics = *context.state().numerics;
    const bool known = std::any_of(attention.begin(), attention.end(), [&](const Context& other) {
      return other.state().numerics->attention == numerics.attention && other.state().numerics->cache == numerics.cache;
    });
    if (!known && numerics.is_contract() && context.state().backend->capabilities().shares_host_memory)
      attention.push_back(context);
  }
};

// A contract that has another's linear layer has its errors, too.
bool has_errors_of_its_own(const Numerics& numerics) {
  return numerics.names_its_linear() && numerics.linear->same_results_as == nullptr;
}

Context context_for(const BenchErrorArguments& arguments, std::string_view numerics) {
  DeviceArguments device = arguments.device;
  device.numerics = numerics;
  return make_context(device);
}

// Found out before anything is printed.
void check_lengths(const BenchErrorArguments& arguments, const Numerics& numerics) {
  const std::int64_t longest = *std::max_element(arguments.k.begin(), arguments.k.end());
  const std::int64_t max_terms = numerics.linear->max_terms;
  if (longest > max_terms)
    throw CLI::ValidationError("--k",
                               fmt::format("{} is above {}, the longest sum of {}", longest, max_terms, numerics.name));
}

Subjects select(const BenchErrorArguments& arguments) {
  Subjects subjects;
  for (const std::string& name : arguments.numerics) {
    check_lengths(arguments, find_numerics(name));
    subjects.add(context_for(arguments, name));
  }
  if (!subjects.names.empty()) return subjects;
  for (const Numerics* numerics : all_numerics()) {
    if (!has_errors_of_its_own(*numerics)) continue;
    check_lengths(arguments, *numerics);
    try {
      const Context context = context_for(arguments, numerics->name);
      study::require_runs(context);
      subjects.add(context);
    } catch (const Error& error) {
      if (numerics->pinned()) throw;  // a draft may lack kernels for the device
      fmt::print(stderr, "without {}: {}\n", numerics->name, error.what());
    }
  }
  return subjects;
}

// 4.0e-7, not 4.0e-07: a column less in each of many.
std::string short_number(double value) {
  std::string text = fmt::format("{:.1e}", value);
  const std::size_t exponent = text.find('e') + 2;
  if (text[exponent] == '0') text.erase(exponent, 1);
  return text;
}

void print_header(const Subjects& subjects) {
  fmt::print("Relative rms error against exact sums on {}\n", subjects.device);
  fmt::print("worst: of the row of activations that fares worst. Weights of seeded operands are BF16\n\n");
  fmt::print("{:<17} {:<17} {:>5}", "activations", "weights", "K");
  for (const std::string& name : subjects.names) fmt::print(" {:>7} {:>6}", name, "worst");
  fmt::print("\n");
}

void print_row(const study::ErrorRow& row) {
  fmt::print("{:<17} {:<17} {:>5}", row.activations, row.weights, row.k);
  for (const study::RelativeError& error : row.errors)
    fmt::print(" {:>7} {:>6}", short_number(error.rms), short_number(error.worst_row));
  fmt::print("\n");
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const study::ErrorRow& row, const std::vector<std::string>& numerics) {
  nlohmann::ordered_json json = {
      {"activations", row.activations}, {"weights", row.weights}, {"k", row.k}, {"outputs", row.outputs}};
  for (std::size_t i = 0; i < numerics.size(); ++i)
    json["errors"][numerics[i]] = {{"rms", row.errors[i].rms}, {"worst_row", row.errors[i].worst_row}};
  return json;
}

study::OnErrorRow print_and_add_to(nlohmann::ordered_json& rows, const Subjects& subjects) {
  return [&rows, &subjects](const study::ErrorRow& row) {
    print_row(row);
    rows.push_back(to_json(row, subjects.names));
  };
}

std::vector<std::int32_t> prompt_tokens(const engine::TextFormat& text) {
  if (!text.has_chat_template()) return text.encode_prompt(kPrompt);
  return text.encode_chat({{{"role", "user"}, {"content", kPrompt}}});
}

// The inputs are those of the default contract, so that every numerics is given the same ones on every machine.
void measure_model(const engine::ModelFiles& files, const DeviceArguments& device, const Subjects& subjects,
                   ThreadPool& pool, const study::OnErrorRow& report) {
  const std::string name = std::filesystem::canonical(files.path()).filename().string();
  if (!files.text().has_tokenizer()) {
    fmt::print("\n{} is left out: {}\n", name, files.text().why_no_tokenizer());
    return;
  }
  const Terminal terminal;
  const std::vector<std::int32_t> tokens = prompt_tokens(files.text());
  terminal.progress(fmt::format("bench error: the inputs of {} ...", name));
  const Context capture = Context::cpu(kDefaultNumerics, parse_isa(device.isa), device.threads);
  const auto inputs = study::capture_linear_inputs(capture, files.source(), tokens);
  terminal.clear_progress();
  fmt::print("\n{}, its own activations and weights, a prompt of {} tokens\n", name, tokens.size());
  study::bench_model_errors(subjects.prepare, *files.source(), inputs, pool, report);
}

nlohmann::ordered_json measure_attention(const Subjects& subjects) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (subjects.attention.empty()) return rows;
  fmt::print("\nAttention of one head of 128, relative rms error against binary64. BF16: operands and probabilities\n");
  fmt::print("rounded as flash attention does, all else exact\n\n{:<28} {:>5} {:>7}", "scores", "keys", "BF16");
  for (const Context& context : subjects.attention) fmt::print(" {:>10} {:>6}", context.numerics(), "worst");
  fmt::print("\n");
  study::bench_attention_errors(subjects.attention, [&](const study::AttentionErrorRow& row) {
    fmt::print("{:<28} {:>5} {:>7}", row.operands.name, row.operands.keys, short_number(row.bf16));
    nlohmann::ordered_json json = {{"scores", row.operands.name}, {"keys", row.operands.keys}, {"bf16", row.bf16}};
    for (std::size_t i = 0; i < subjects.attention.size(); ++i) {
      const study::RelativeError& error = row.errors[i];
      fmt::print(" {:>10} {:>6}", short_number(error.rms), short_number(error.worst_row));
      json["errors"][subjects.attention[i].numerics()] = {{"rms", error.rms}, {"worst_row", error.worst_row}};
    }
    fmt::print("\n");
    std::fflush(stdout);
    rows.push_back(std::move(json));
  });
  return rows;
}

void run_bench_error(const BenchErrorArguments& arguments) {
  OutputFile json_file(arguments.json);
  const engine::ModelFiles files(model_folder(arguments.model));
  const Subjects subjects = select(arguments);
  ThreadPool pool(arguments.device.threads == 0 ? available_cores() : arguments.device.threads);
  nlohmann::ordered_json seeded = nlohmann::ordered_json::array();
  nlohmann::ordered_json model = nlohmann::ordered_json::array();
  print_header(subjects);
  study::bench_seeded_errors(subjects.prepare, arguments.k, pool, print_and_add_to(seeded, subjects));
  measure_model(files, arguments.device, subjects, pool, print_and_add_to(model, subjects));
  const nlohmann::ordered_json attention = measure_attention(subjects);
  const nlohmann::ordered_json root = {{"version", kVersion},
                                       {"device", subjects.device},
                                       {"seeded", seeded},
                                       {"model", model},
                                       {"attention", attention}};
  json_file.write(root.dump(2) + "\n");
}

}  // namespace

void add_bench_error_command(CLI::App& bench) {
  auto arguments = std::make_shared<BenchErrorArguments>();
  CLI::App* command = bench.add_subcommand("error", "How far each numerics is from exact sums");
  add_device_options(*command, arguments->device);
  add_numerics_list(*command, arguments->numerics, "Any of", "each that runs here and has errors of its own");
  add_number_list(*command, "--k", arguments->k, std::int64_t{1} << 20, "Lengths of the seeded sums");
  command->add_option("--model", arguments->model, "Folder of the model whose own operands are measured, too")
      ->type_name("DIR")
      ->default_str("the bundled model");
  add_output_file(*command, "--json", arguments->json, "Also write the results to this file");
  command->callback([arguments] { run_bench_error(*arguments); });
}

}  // namespace reprofuse::cli
