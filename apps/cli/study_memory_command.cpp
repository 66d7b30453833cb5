#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "ops/context_state.hpp"
#include "study/bench/engine.hpp"
#include "study/bench/model.hpp"

namespace reprofuse::cli {
namespace {

struct StudyMemoryArguments {
  std::vector<std::string> shapes = {"llama-3.2-1b"};
  std::vector<std::string> numerics;
  std::int64_t budget = 0;  // 0: nine tenths of what is free
  std::int64_t batch = 32, prefill_chunk = 512, context = 8192;
  DeviceArguments device;
  bool json = false;
};

// "24GiB", "500MiB" or bytes.
void add_bytes_option(CLI::App& command, const std::string& name, std::int64_t& bytes, const std::string& about) {
  const auto read = [name, &bytes](const std::string& text) {
    struct Unit {
      std::string_view name;
      int shift;
    };
    constexpr std::array<Unit, 5> kUnits = {{{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
    const char* end = text.data() + text.size();
    std::int64_t count = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, count);
    for (const Unit& unit : kUnits)
      if (error == std::errc() && std::string_view(stop, end) == unit.name && count >= 1 &&
          count <= INT64_MAX >> unit.shift) {
        bytes = count << unit.shift;
        return;
      }
    throw CLI::ValidationError(name,
                               fmt::format("'{}' is not a number of bytes, or of KiB, MiB, GiB or TiB, above 0", text));
  };
  command.add_option_function<std::string>(name, read, about)->type_name("BYTES");
}

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (std::int64_t{1} << 30);
}

void run_study_memory(const StudyMemoryArguments& arguments) {
  const std::vector<Context> contexts = make_contexts(arguments.device, arguments.numerics);
  const std::int64_t budget = arguments.budget > 0 ? arguments.budget : study::default_budget(contexts.front());
  nlohmann::ordered_json root = {{"budget_bytes", budget},       {"device", contexts.front().description()},
                                 {"batch", arguments.batch},     {"prefill_chunk", arguments.prefill_chunk},
                                 {"context", arguments.context}, {"rows", nlohmann::ordered_json::array()}};
  const Terminal terminal;
  if (!arguments.json) {
    fmt::print("{}; {:.2f} GiB for weights, passes of {} answers or {} tokens, and keys and values\n\n",
               contexts.front().description(), gib(budget), arguments.batch, arguments.prefill_chunk);
    fmt::print("{:<14} {:<14} {:>12} {:>14} {:>10} {:>10}\n", "shape", "numerics", "weights GiB", "transient GiB",
               "KV GiB", "KV tokens");
  }
  for (const std::string& shape : arguments.shapes)
    for (const Context& context : contexts) {
      terminal.progress(fmt::format("{} by {} ...", shape, context.numerics()));
      const study::MemoryRow row = study::measure_memory(context, {.config = study::published_shape(shape),
                                                                   .budget = budget,
                                                                   .batch = arguments.batch,
                                                                   .rows = arguments.prefill_chunk,
                                                                   .context = arguments.context});
      terminal.clear_progress();
      root["rows"].push_back({{"shape", shape},
                              {"numerics", row.numerics},
                              {"pins_bits", context.state().numerics->is_contract()},
                              {"resident_weight_bytes", row.weight_bytes},
                              {"transient_peak_bytes", row.transient_bytes},
                              {"kv_tokens", row.kv_tokens}});
      if (!arguments.json)
        fmt::print("{:<14} {:<14} {:>12.3f} {:>14.3f} {:>10.3f} {:>10}\n", shape, row.numerics, gib(row.weight_bytes),
                   gib(row.transient_bytes), gib(row.kv_bytes), row.kv_tokens);
      std::fflush(stdout);
    }
  if (arguments.json) fmt::print("{}\n", root.dump(2));
}

}  // namespace

void add_study_memory_command(CLI::App& study) {
  auto arguments = std::make_shared<StudyMemoryArguments>();
  for (const std::string_view name : numerics_names()) arguments->numerics.emplace_back(name);
  CLI::App* command = study.add_subcommand(
      "memory", "What memory each method takes to serve a model, and the tokens that are left room");
  command->add_option("--shape", arguments->shapes, "Random weights of published shapes, between commas")
      ->check(one_of(study::published_shapes()))
      ->delimiter(',')
      ->type_name("NAME,...")
      ->capture_default_str();
  add_bytes_option(*command, "--budget", arguments->budget,
                   "For weights, passes and keys and values, such as 24GiB (default: nine tenths of what is free)");
  command->add_option("--batch", arguments->batch, "Answers in a decode pass")
      ->check(whole_number<std::int64_t>(1, engine::kMaxBatch))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--prefill-chunk", arguments->prefill_chunk, "Tokens in a prefill pass")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--context", arguments->context, "The longest text")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  add_numerics_list(*command, arguments->numerics, "Any of");
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->callback([arguments] { run_study_memory(*arguments); });
}

}  // namespace reprofuse::cli
