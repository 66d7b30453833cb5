#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/openblas_kernels.hpp"
#include "cli/option_values.hpp"
#include "cli/output_file.hpp"
#include "cli/own_process.hpp"
#include "engine/model_files.hpp"
#include "reprofuse/context.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::cli {
namespace {

struct StudyDemoArguments {
  std::string out = "reprofuse-demo";
  int problems = 60;  // of each task
  bool openblas_kernels = false;
};

// Another machine, as far as one machine can be another.
struct Platform {
  std::string name;
  std::string environment;  // which kernels OpenBLAS takes
  Isa isa;
  int threads;
  int batch;
  std::string numerics;
};

struct Task {
  std::string name;
  std::string path;
  std::vector<std::string> options;
};

// Not every contract: each adds its part to some minutes.
constexpr const char* kContracts = "fma-1,exact-1";
constexpr const char* kBaselines = "layercast,bf16";

std::string numerics_with(const std::vector<OpenBlasChoice>& choices) {
  return choices.empty() ? kContracts : fmt::format("{},{}", kContracts, kBaselines);
}

// OpenBLAS has one thread everywhere: several that wait for each other take minutes on a busy machine.
std::vector<Platform> platforms_of(const std::vector<OpenBlasChoice>& choices) {
  const std::vector<Isa> isas = supported_isas();  // slowest first
  const Isa best = isas.back(), other = isas.size() > 2 ? isas[isas.size() - 2] : best;
  const std::string all = numerics_with(choices);
  std::vector<Platform> platforms = {{"one-thread", "", best, 1, 16, all},
                                     {"other-instructions", "", other, 1, 16, all},
                                     {"small-batches", "", best, 1, 5, all},
                                     {"two-threads", "", best, 2, 16, kContracts}};
  for (std::size_t i = 0; i < platforms.size() && !choices.empty(); ++i)
    platforms[i].environment = choices[i % choices.size()].assignment;
  return platforms;
}

// The questions that come with the model, and their beginnings: what the model adds to those is a matter of taste, with
// near-ties, where it is sure of its arithmetic.
std::vector<Task> write_tasks(const std::string& folder, int problems) {
  const std::string path = engine::bundled_model_folder() + "/handwritten.jsonl";
  std::ifstream lines(path);
  require(lines.is_open(), "{}: cannot be read", path);
  std::string questions, beginnings;
  for (std::string line; problems-- > 0 && std::getline(lines, line);) {
    const nlohmann::json problem = nlohmann::json::parse(line);
    const std::string question = problem.at("question");
    questions += nlohmann::json{{"prompt", question}, {"answer", problem.at("answer")}}.dump() + "\n";
    const std::size_t end = question.find(' ', question.size() / 3);
    beginnings += nlohmann::json{{"prompt", question.substr(0, end)}}.dump() + "\n";
  }
  std::vector<Task> tasks = {{"word problems", folder + "/word-problems.jsonl", {"--chat", "--max-tokens", "160"}},
                             {"unfinished questions", folder + "/unfinished-questions.jsonl", {"--max-tokens", "96"}}};
  OutputFile(tasks[0].path).write(questions);
  OutputFile(tasks[1].path).write(beginnings);
  return tasks;
}

std::string run_task(const Task& task, const Platform& platform, const std::string& folder) {
  const std::string stem = std::filesystem::path(task.path).stem().string();
  std::string out = fmt::format("{}/{}/{}.run", folder, stem, platform.name);
  std::filesystem::create_directories(std::filesystem::path(out).parent_path());
  std::vector<std::string> arguments = {"study",       "run",
                                        "--task",      task.path,
                                        "--out",       out,
                                        "--task-name", task.name,
                                        "--numerics",  platform.numerics,
                                        "--seeds",     "2",
                                        "--isa",       std::string(isa_name(platform.isa)),
                                        "--threads",   std::to_string(platform.threads),
                                        "--batch",     std::to_string(platform.batch)};
  arguments.insert(arguments.end(), task.options.begin(), task.options.end());
  require(run_self(std::move(arguments), platform.environment, OwnErrors::kShown).has_value(),
          "{}: the run did not come to its end; see above", out);
  return out;
}

void run_study_demo(const StudyDemoArguments& arguments) {
  if (arguments.openblas_kernels) return print_openblas_kernels();
  std::filesystem::create_directories(arguments.out);
  OutputFile page(arguments.out + "/report.html");
  const std::vector<Task> tasks = write_tasks(arguments.out, arguments.problems);
  const std::vector<OpenBlasChoice> choices = openblas_choices({"study", "demo", "--openblas-kernels"});
  if (choices.empty())
    fmt::print("Without OpenBLAS, which the baselines need; on Debian: apt install libopenblas0-pthread\n");
  fmt::print("The bundled model answers two tasks by {}, some minutes in all\n", numerics_with(choices));
  std::vector<study::Run> runs;
  for (const Platform& platform : platforms_of(choices)) {
    fmt::print("{}\n", platform.name);
    std::fflush(stdout);
    for (const Task& task : tasks) runs.push_back(study::read_run(run_task(task, platform, arguments.out)));
  }
  const std::vector<study::ReportGroup> groups = study::compare_by_task(std::move(runs));
  page.write(study::report_page(groups, {}, kVersion));
  fmt::print("The report is {}\n",
             std::filesystem::absolute(arguments.out + "/report.html").lexically_normal().string());
  for (const study::ReportGroup& group : groups) study::require_unmoved(group.methods);
}

}  // namespace

void add_study_demo_command(CLI::App& study) {
  auto arguments = std::make_shared<StudyDemoArguments>();
  CLI::App* command = study.add_subcommand("demo", "A small study of the bundled model on this machine, as a page");
  command->add_option("--out", arguments->out, "Folder of the runs and of report.html; an interrupted study goes on")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--problems", arguments->problems, "Problems of each task")
      ->check(whole_number(1, 60))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--openblas-kernels", arguments->openblas_kernels)->group("");  // for this tool's own processes
  command->callback([arguments] { run_study_demo(*arguments); });
}

}  // namespace reprofuse::cli
