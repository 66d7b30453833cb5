#include <sys/utsname.h>

#include <algorithm>
#include <cfloat>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "checkpoint/digest.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/model_files.hpp"
#include "ops/contract.hpp"
#include "study/runs/compare_runs.hpp"
#include "study/runs/make_run.hpp"
#include "study/runs/task.hpp"

namespace reprofuse::cli {
namespace {

struct StudyRunArguments {
  std::string task, out;
  std::optional<std::string> model;  // none: the one that comes with ReproFuse
  std::vector<std::string> numerics = {std::string(kDefaultNumerics)};
  int seeds = 3;
  std::int64_t batch = 32;
  std::int64_t max_tokens = 256;
  std::int64_t limit = 0;
  bool chat = false;
  std::optional<std::string> date;
  std::optional<float> temperature, top_p;
  std::uint64_t sampling_seed = 0;
  DeviceArguments device;
};

struct StudyCompareArguments {
  std::vector<std::string> runs;
  bool json = false;
};

std::string machine() {
  utsname name = {};
  uname(&name);
  return fmt::format("{} {}", name.sysname, name.machine);
}

// Settings are told as text; numbers by their bits, so that equal text is an equal setting.
std::string bits_of(float value) {
  return fmt::format("{:.9g}", value);
}

study::RunRequest request_of(const StudyRunArguments& arguments, const engine::ModelFiles& files,
                             const std::vector<study::Problem>& problems, const text::DateTime& date) {
  study::RunRequest request{.prompts = {},
                            .max_tokens = arguments.max_tokens,
                            .sampling = {},
                            .stop_tokens = files.stop_tokens(),
                            .batch = arguments.batch};
  request.sampling.temperature = arguments.temperature.value_or(0);
  request.sampling.top_p = arguments.top_p.value_or(1);
  request.sampling.seed = arguments.sampling_seed;
  check_sampling_params(request.sampling);
  for (const study::Problem& problem : problems)
    request.prompts.push_back(study::prompt_tokens(problem, files.text(), date, arguments.chat));
  return request;
}

study::RunHeader header_of(const StudyRunArguments& arguments, const engine::ModelFiles& files,
                           const std::vector<Context>& contexts, const std::vector<study::Problem>& problems,
                           const study::RunRequest& request, const text::DateTime& date) {
  ThreadPool pool(available_cores());
  study::RunHeader header{.version = kVersion, .device = contexts.front().description(), .machine = machine()};
  header.settings = {{"model digest", checkpoint::model_digest(files.checkpoint(), pool)},
                     {"longest answer", std::to_string(request.max_tokens)},
                     {"temperature", bits_of(request.sampling.temperature)},
                     {"top-p", bits_of(request.sampling.top_p)},
                     {"sampling seed", std::to_string(request.sampling.seed)},
                     {"stop tokens", fmt::format("{}", fmt::join(request.stop_tokens, ","))},
                     {"date", text::to_string(date)},
                     {"batch", std::to_string(arguments.batch)}};
  for (const std::string& numerics : arguments.numerics)
    for (int seed = 0; seed < arguments.seeds; ++seed)
      header.cells.push_back({numerics, find_numerics(numerics).reproducible(), static_cast<std::uint64_t>(seed)});
  for (std::size_t i = 0; i < problems.size(); ++i)
    header.problems.push_back({problems[i].id, study::tokens_sha256(request.prompts[i]), problems[i].answer});
  return header;
}

std::string progress_line(const study::RunHeader& header, const study::RunProgress& progress) {
  const study::RunCell& cell = header.cells[progress.cell];
  const auto all = static_cast<double>(header.problems.size());
  const double done = static_cast<double>(progress.answers) / all;
  std::string bar(20, '.');
  std::fill_n(bar.begin(), static_cast<std::size_t>(done * 20), '#');
  std::string line =
      fmt::format("cell {} of {}: {}, seed {} [{}] {} of {}, {:.0f} tokens/s", progress.cell + 1, header.cells.size(),
                  cell.numerics, cell.seed, bar, progress.answers, header.problems.size(),
                  static_cast<double>(progress.new_tokens) / std::max(progress.seconds, 1e-9));
  if (progress.answers > 0 && done < 1)
    line += fmt::format(", {:.0f} s left in the cell", progress.seconds / done * (1 - done));
  return line;
}

void run_study_run(const StudyRunArguments& arguments) {
  const text::DateTime date =
      reading_option("--date", [&] { return arguments.date ? text::parse_date(*arguments.date) : text::DateTime{}; });
  std::vector<study::Problem> problems = study::read_task(arguments.task);
  if (arguments.limit > 0 && static_cast<std::size_t>(arguments.limit) < problems.size())
    problems.resize(static_cast<std::size_t>(arguments.limit));
  const engine::ModelFiles files(arguments.model ? *arguments.model : engine::bundled_model_folder());
  const study::RunRequest request = request_of(arguments, files, problems, date);
  const std::vector<Context> contexts = make_contexts(arguments.device, arguments.numerics);
  study::RunWriter writer(arguments.out, header_of(arguments, files, contexts, problems, request, date));
  const study::RunHeader& header = writer.done().header;
  const std::size_t known = writer.done().answers.size(), all = header.cells.size() * problems.size();
  fmt::print("{}: {} problems, {} numerics, {} seeds on {}\n", arguments.out, problems.size(),
             arguments.numerics.size(), arguments.seeds, header.device);
  if (known > 0) fmt::print("{} of {} answers are there already\n", known, all);
  const Terminal terminal;
  for (const Context& context : contexts) {
    std::optional<model::Model> model;
    for (std::uint32_t cell = 0; cell < header.cells.size(); ++cell) {
      if (header.cells[cell].numerics != context.numerics()) continue;
      if (!model) model.emplace(context, files.source());
      study::make_cell(writer, cell, *model, request,
                       files.text().has_tokenizer() ? &files.text().tokenizer() : nullptr,
                       [&](const study::RunProgress& progress) { terminal.progress(progress_line(header, progress)); });
    }
  }
  terminal.clear_progress();
  fmt::print("{} answers; `reprofuse study compare {}` looks at them\n", all, arguments.out);
}

std::string percent(double fraction) {
  return fmt::format("{:.2f}%", 100 * fraction);
}

std::string shown(std::optional<double> value, const char* format = "{:.1f}") {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// The pairs that margins and shifts are about.
const study::Divergence& pairs_of(const study::MethodResult& method) {
  return method.between_runs.pairs > 0 ? method.between_runs : method.between_seeds;
}

// Of the positions that both of a pair pass, those with the same margin, bit for bit.
std::string equal_margins(const study::Divergence& pairs) {
  if (pairs.positions == 0) return "-";
  return fmt::format("{:.3f}%", 100 * static_cast<double>(pairs.equal_margins) / static_cast<double>(pairs.positions));
}

void print(const std::vector<study::MethodResult>& methods) {
  const Terminal terminal;
  fmt::print("\n{:<13} {:^49}  {:^37}\n{:<13} {:>8} {:>9} {:>13} {:>16}  {:>8} {:>13} {:>14}\n", "", "between runs",
             "between seeds", "numerics", "Div%", "Div_Index", "other logits", "equal margins", "pairs", "other logits",
             "equal margins");
  for (const study::MethodResult& method : methods) {
    const study::Divergence &runs = method.between_runs, &seeds = method.between_seeds;
    fmt::print("{:<13} {:>8} {:>9} {:>13} {:>16}  {:>8} {:>13} {:>14}  {}\n", method.numerics,
               runs.pairs > 0 ? percent(method.divergent_fraction()) : "-", shown(runs.mean_first_index()),
               runs.other_digests, equal_margins(runs), seeds.pairs > 0 ? percent(seeds.fraction()) : "-",
               seeds.other_digests, equal_margins(seeds), method.moved() ? terminal.red("MOVED, and it must not") : "");
  }
  fmt::print("\n{:<13} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9} {:>11} {:>9} {:>9}\n", "nats", "margin", "1 %", "slope",
             "shift", "99 %", "exposed", "at the flip", "predicted", "measured");
  for (const study::MethodResult& method : methods) {
    const study::Divergence& pairs = pairs_of(method);
    const double exposed =
        pairs.positions == 0 ? 0 : static_cast<double>(pairs.exposed) / static_cast<double>(pairs.positions);
    const auto predicted = method.predicted ? percent(*method.predicted) : "-";
    fmt::print("{:<13} {:>9.3g} {:>9.2g} {:>9} {:>10.2g} {:>10.2g} {:>9} {:>11} {:>9} {:>9}\n", method.numerics,
               study::quantile(method.margins, 0.5), study::quantile(method.margins, 0.01),
               shown(method.tail_slope, "{:.3f}"), study::quantile(pairs.shifts, 0.5),
               study::quantile(pairs.shifts, 0.99), percent(exposed),
               pairs.flip_margins.empty() ? "-" : fmt::format("{:.2g}", study::quantile(pairs.flip_margins, 0.5)),
               predicted, method.measured ? percent(*method.measured) : "-");
  }
  fmt::print("\n{:<13} {:<24} {:>10} {:>8} {:>10} {:>24}\n", "numerics", "run", "seconds", "±", "tokens/s",
             "right (95 % interval)");
  for (const study::MethodResult& method : methods)
    for (const study::CellTime& time : method.times) {
      const study::Accuracy& right = time.accuracy;
      const std::string accuracy =
          right.known == 0 ? "-"
                           : fmt::format("{} ({} to {})",
                                         percent(static_cast<double>(right.right) / static_cast<double>(right.known)),
                                         percent(right.low), percent(right.high));
      fmt::print("{:<13} {:<24} {:>10.2f} {:>8.2f} {:>10.1f} {:>30}\n", method.numerics, time.run, time.mean_seconds,
                 time.deviation, time.tokens_per_second, accuracy);
    }
}

nlohmann::ordered_json to_json(const study::Divergence& divergence) {
  const auto optional = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"pairs", divergence.pairs},
          {"divergent", divergence.divergent},
          {"other_digests", divergence.other_digests},
          {"div_index", optional(divergence.mean_first_index())},
          {"positions", divergence.positions},
          {"equal_margins", divergence.equal_margins},
          {"exposed", divergence.exposed},
          {"shift_median", study::quantile(divergence.shifts, 0.5)},
          {"shift_99", study::quantile(divergence.shifts, 0.99)},
          {"flip_margin_median", optional(divergence.flip_margins.empty()
                                              ? std::nullopt
                                              : std::optional<double>(study::quantile(divergence.flip_margins, 0.5)))}};
}

nlohmann::ordered_json to_json(const study::MethodResult& method) {
  nlohmann::ordered_json json = {{"numerics", method.numerics},
                                 {"pins_bits", method.pins_bits},
                                 {"moved", method.moved()},
                                 {"problems", method.problems},
                                 {"divergent_problems", method.divergent_problems},
                                 {"between_runs", to_json(method.between_runs)},
                                 {"between_seeds", to_json(method.between_seeds)},
                                 {"margin_median", study::quantile(method.margins, 0.5)},
                                 {"margin_1_percent", study::quantile(method.margins, 0.01)}};
  if (method.tail_slope) json["tail_slope"] = *method.tail_slope;
  if (method.flip_per_token) json["flip_per_token"] = *method.flip_per_token;
  if (method.predicted) json["predicted"] = *method.predicted;
  if (method.measured) json["measured"] = *method.measured;
  for (const study::PairOfRuns& pair : method.pairs)
    json["pairs"].push_back({{"a", pair.a}, {"b", pair.b}, {"divergence", to_json(pair.divergence)}});
  for (const study::CellTime& time : method.times)
    json["runs"].push_back({{"run", time.run},
                            {"seconds", time.mean_seconds},
                            {"seconds_deviation", time.deviation},
                            {"tokens_per_second", time.tokens_per_second},
                            {"known_answers", time.accuracy.known},
                            {"right_answers", time.accuracy.right},
                            {"right_low", time.accuracy.low},
                            {"right_high", time.accuracy.high}});
  return json;
}

void run_study_compare(const StudyCompareArguments& arguments) {
  std::vector<study::Run> runs;
  for (const std::string& path : arguments.runs) runs.push_back(study::read_run(path));
  const std::vector<study::MethodResult> methods = study::compare_runs(runs);
  if (arguments.json) {
    nlohmann::ordered_json json = {{"version", kVersion}, {"methods", nlohmann::ordered_json::array()}};
    for (const study::MethodResult& method : methods) json["methods"].push_back(to_json(method));
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const study::Run& run : runs)
      fmt::print("{:<24} {}, {}, version {}, {} problems\n", run.name, run.header.device, run.header.machine,
                 run.header.version, run.header.problems.size());
    print(methods);
  }
  for (const study::MethodResult& method : methods)
    require(!method.moved(), "answers by {} differ, which pins every bit", method.numerics);
}

void add_study_run(CLI::App& study) {
  auto arguments = std::make_shared<StudyRunArguments>();
  CLI::App* command = study.add_subcommand("run", "Answer the problems of a task and keep every step");
  command
      ->add_option("--task", arguments->task, "JSON lines with prompt or messages, id and answer; or a prompt a line")
      ->required()
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "The run; one that was interrupted goes on")
      ->required()
      ->type_name("RUN");
  command->add_option("--model", arguments->model, "Checkpoint folder (default: the one of ReproFuse)")
      ->type_name("DIR");
  add_device_options(*command, arguments->device);
  add_numerics_list(*command, arguments->numerics, "Any of");
  command->add_option("--seeds", arguments->seeds, "Orders in which the problems arrive; 0 is the task's")
      ->check(whole_number<int>(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "Answers at once")
      ->check(whole_number<std::int64_t>(1, 4096))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--max-tokens", arguments->max_tokens, "The longest answer")
      ->check(whole_number<std::int64_t>(1, kMaxTokens))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--limit", arguments->limit, "Only the first problems of the task")
      ->check(whole_number<std::int64_t>(1, INT32_MAX))
      ->type_name("N");
  command->add_flag("--chat", arguments->chat, "Put prompts through the model's chat template");
  command->add_option("--date", arguments->date, "What a chat template sees as today")->type_name("DATE");
  add_real_option(*command, "--temperature", arguments->temperature, "Sample; 0, the default, is greedy")
      ->check(real_number(0, FLT_MAX))
      ->type_name("T");
  add_real_option(*command, "--top-p", arguments->top_p, "Only the likeliest tokens that make up this part")
      ->check(real_number(0, 1))
      ->type_name("P");
  command->add_option("--sampling-seed", arguments->sampling_seed, "Of the random numbers, in every cell the same")
      ->check(whole_number<std::uint64_t>(0, UINT64_MAX))
      ->type_name("S")
      ->capture_default_str();
  command->callback([arguments] { run_study_run(*arguments); });
}

void add_study_compare(CLI::App& study) {
  auto arguments = std::make_shared<StudyCompareArguments>();
  CLI::App* command =
      study.add_subcommand("compare", "How often answers differ between runs and seeds, where, and why");
  command->add_option("RUN", arguments->runs, "Runs of the same task, from any machines")->required()->expected(1, -1);
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->footer("Exit status: 0 nothing moved that a contract pins, 1 something did or an error, 2 usage.");
  command->callback([arguments] { run_study_compare(*arguments); });
}

}  // namespace

void add_study_command(CLI::App& app) {
  CLI::App* study = app.add_subcommand("study", "How often answers differ between machines and between runs, and why");
  study->require_subcommand(1);
  add_study_run(*study);
  add_study_compare(*study);
  add_study_memory_command(*study);
}

}  // namespace reprofuse::cli
