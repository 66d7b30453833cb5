#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/openblas_kernels.hpp"
#include "cli/option_values.hpp"
#include "cli/output_file.hpp"
#include "cli/terminal.hpp"
#include "study/ablation/ablate.hpp"

namespace reprofuse::cli {
namespace {

struct AblateArguments {
  std::string rule = "all";
  std::string device = "cpu";
  std::string json;    // empty: no file
  std::string report;  // likewise
  bool openblas_digests = false;
};

struct Rule {
  const char* name;
  study::Experiment (*run)(study::AblationMachine&, const study::AblationOptions&);
};
constexpr Rule kRules[] = {
    {"r1", study::ablate_r1}, {"r2", study::ablate_r2}, {"r3", study::ablate_r3}, {"r4", study::ablate_r4}};

void run_ablate(const AblateArguments& arguments) {
  if (arguments.openblas_digests) return print_openblas_digests();
  OutputFile json_file(arguments.json), report_file(arguments.report);
  const auto machine = study::make_ablation_machine(arguments.device);
  const Terminal terminal;
  study::AblationOptions options;
  options.progress = [&](std::string_view line) { terminal.progress(line); };
  options.vendor_kernels = run_openblas_kernels;
  std::vector<study::Experiment> experiments;
  for (const Rule& rule : kRules) {
    if (arguments.rule != "all" && arguments.rule != rule.name) continue;
    experiments.push_back(rule.run(*machine, options));
    terminal.clear_progress();
    fmt::print("{}{}", experiments.size() > 1 ? "\n" : "", study::to_markdown(experiments.back()));
    std::fflush(stdout);
  }
  nlohmann::ordered_json json = {{"version", kVersion}, {"experiments", nlohmann::ordered_json::array()}};
  for (const study::Experiment& experiment : experiments) json["experiments"].push_back(study::to_json(experiment));
  json_file.write(json.dump(2) + "\n");
  report_file.write(study::to_html(experiments, kVersion));
  require(study::all_claims_hold(experiments), "ablate: a claim of the contract does not hold; see the lines above");
}

}  // namespace

void add_ablate_command(CLI::App& app) {
  auto arguments = std::make_shared<AblateArguments>();
  CLI::App* ablate = app.add_subcommand("ablate", "What each rule of fma-1 is worth: one switched off at a time");
  ablate
      ->add_option("rule", arguments->rule,
                   "r1: arithmetic; r2: tuned schedules; r3: split-K and its merge; r4: batch sizes; or all")
      ->check(one_of({"r1", "r2", "r3", "r4", "all"}))
      ->required();
  ablate
      ->add_option("--device", arguments->device, "Where to compute; a CPU runs an analogue of each, labelled as such")
      ->check(is_device())
      ->type_name("NAME")
      ->capture_default_str();
  ablate->add_option("--json", arguments->json, "Also write the results to this file")->type_name("FILE");
  ablate->add_option("--report", arguments->report, "Also write them as one HTML page")->type_name("FILE");
  ablate->add_flag("--openblas-digests", arguments->openblas_digests)->group("");  // for this tool's own processes
  ablate->callback([arguments] { run_ablate(*arguments); });
}

}  // namespace reprofuse::cli
