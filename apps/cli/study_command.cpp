#include <sys/utsname.h>

#include <algorithm>
#include <cfloat>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "engine/model_files.hpp"
#include "ops/contract.hpp"
#include "receipt/receipt.hpp"
#include "study/bench/linear.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::cli {
namespace {

struct StudyRunArguments {
  std::string task, out;
  std::optional<std::string> model;  // none: the bundled one
  std::optional<std::string> model_name, task_name;
  std::vector<std::string> numerics;  // empty: the default of the device
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

std::string machine() {
  utsname name = {};
  uname(&name);
  return fmt::format("{} {}", name.sysname, name.machine);
}

// Of "models/llama/" it is "llama".
std::string folder_name(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
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
  study::RunHeader header{.version = kVersion,
                          .model = arguments.model_name.value_or(folder_name(files.path())),
                          .task = arguments.task_name.value_or(std::filesystem::path(arguments.task).stem().string()),
                          .device = contexts.front().description(),
                          .vendor = {},
                          .machine = machine(),
                          .batch = arguments.batch};
  for (const Context& context : contexts)
    if (header.vendor.empty()) header.vendor = study::vendor_of(context);
  const receipt::Artifacts artifacts = receipt::artifacts_of(
      files, receipt::TextFiles(files.path()),
      checkpoint::model_manifest(files.checkpoint(), checkpoint::tensor_digests(files.checkpoint(), pool)),
      text::to_string(date), files.checkpoint().config().max_positions);
  header.settings = {{"model digest", artifacts.model},
                     {"longest answer", std::to_string(request.max_tokens)},
                     {"temperature", bits_of(request.sampling.temperature)},
                     {"top-p", bits_of(request.sampling.top_p)},
                     {"sampling seed", std::to_string(request.sampling.seed)},
                     {"stop tokens", fmt::format("{}", fmt::join(request.stop_tokens, ","))},
                     {"date", text::to_string(date)}};
  for (const Context& context : contexts) {
    const Numerics& numerics = find_numerics(context.numerics());
    for (int seed = 0; seed < arguments.seeds; ++seed)
      header.cells.push_back({std::string(numerics.name), numerics.pinned(), static_cast<std::uint64_t>(seed),
                              receipt::system_fingerprint(numerics, artifacts, kVersion)});
  }
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
  const engine::ModelFiles files(model_folder(arguments.model));
  const study::RunRequest request = request_of(arguments, files, problems, date);
  const std::vector<Context> contexts = make_contexts(arguments.device, arguments.numerics);
  study::RunWriter writer(arguments.out, header_of(arguments, files, contexts, problems, request, date));
  const study::RunHeader& header = writer.done().header;
  const std::size_t known = writer.done().answers.size(), all = header.cells.size() * problems.size();
  fmt::print("{}: {} problems, {} numerics, {} seeds on {}{}\n", arguments.out, problems.size(), contexts.size(),
             arguments.seeds, header.device, default_note(arguments.numerics, arguments.device.device));
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
  add_model_option(*command, arguments->model);
  command->add_option("--model-name", arguments->model_name, "What reports call the model (default: its folder)")
      ->type_name("NAME");
  command->add_option("--task-name", arguments->task_name, "What reports call the task (default: its file)")
      ->type_name("NAME");
  add_device_options(*command, arguments->device);
  add_numerics_list(*command, arguments->numerics, "Any of");
  command->add_option("--seeds", arguments->seeds, "Orders in which the problems arrive; 0 is the task's")
      ->check(whole_number<int>(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "Answers at once")
      ->check(whole_number<std::int64_t>(1, engine::kMaxBatch))
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
  add_real_option(*command, "--top-p", arguments->top_p, "Only the likeliest tokens whose probabilities add up to this")
      ->check(real_number(0, 1))
      ->type_name("P");
  command->add_option("--sampling-seed", arguments->sampling_seed, "Seed of the random numbers, the same in every cell")
      ->check(whole_number<std::uint64_t>(0, UINT64_MAX))
      ->type_name("S")
      ->capture_default_str();
  command->callback([arguments] { run_study_run(*arguments); });
}

}  // namespace

void add_study_command(CLI::App& app) {
  CLI::App* study = app.add_subcommand("study", "How often answers differ between machines and between runs, and why");
  study->require_subcommand(1);
  add_study_run(*study);
  add_study_compare_command(*study);
  add_study_report_command(*study);
  add_study_demo_command(*study);
  add_study_memory_command(*study);
}

}  // namespace reprofuse::cli
