#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output_file.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::cli {
namespace {

struct StudyReportArguments {
  std::vector<std::string> runs;
  std::string out;
  study::ReportFiles files;
};

void run_study_report(const StudyReportArguments& arguments) {
  OutputFile out(arguments.out);
  std::vector<study::Run> runs;
  for (const std::string& path : arguments.runs) runs.push_back(study::read_run(path));
  const std::vector<study::ReportGroup> groups = study::compare_by_task(std::move(runs));
  out.write(study::report_page(groups, arguments.files, kVersion));
  fmt::print("{}\n", arguments.out);
  for (const study::ReportGroup& group : groups) study::require_unmoved(group.methods);
}

}  // namespace

void add_study_report_command(CLI::App& study) {
  auto arguments = std::make_shared<StudyReportArguments>();
  CLI::App* command = study.add_subcommand("report", "What compare says of runs, as one page with figures");
  command->add_option("RUN", arguments->runs, "Runs of one or several models and tasks")->required()->expected(1, -1);
  command->add_option("--out", arguments->out, "The page, which needs no network")->required()->type_name("FILE");
  command->add_option("--bench", arguments->files.benches, "Results of bench linear or bench engine, as JSON")
      ->type_name("FILE");
  command->add_option("--memory", arguments->files.memory, "Results of study memory, as JSON")->type_name("FILE");
  command->add_option("--ablation", arguments->files.ablations, "Results of ablate, as JSON")->type_name("FILE");
  command->footer(
      "Runs of the same model and task are compared with each other. A part without data is left out of the page.\n"
      "Exit status: 0 nothing moved that a contract pins, 1 something did or an error, 2 usage.");
  command->callback([arguments] { run_study_report(*arguments); });
}

}  // namespace reprofuse::cli
