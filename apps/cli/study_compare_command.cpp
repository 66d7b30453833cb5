#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::cli {
namespace {

struct StudyCompareArguments {
  std::vector<std::string> runs;
  bool json = false;
};

std::string percent(double fraction) {
  return fmt::format("{:.2f}%", 100 * fraction);
}

std::string shown(std::optional<double> value, const char* format = "{:.1f}") {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// Of the positions that both of a pair pass, those with the same margin, bit for bit.
std::string equal_margins(const study::Divergence& pairs) {
  if (pairs.positions == 0) return "-";
  return fmt::format("{:.3f}%", 100 * static_cast<double>(pairs.equal_margins) / static_cast<double>(pairs.positions));
}

// Where there are more than two runs: which of them differ.
void print_pairs(const std::vector<study::MethodResult>& methods) {
  if (std::all_of(methods.begin(), methods.end(), [](const auto& method) { return method.pairs.size() < 2; })) return;
  fmt::print("\n{:<13} {:<24} {:<24} {:>8} {:>9} {:>13}\n", "numerics", "run", "and run", "Div%", "Div_Index",
             "other logits");
  for (const study::MethodResult& method : methods)
    for (const study::PairOfRuns& pair : method.pairs)
      fmt::print("{:<13} {:<24} {:<24} {:>8} {:>9} {:>13}\n", method.numerics, pair.a, pair.b,
                 percent(pair.divergence.fraction()), shown(pair.divergence.mean_first_index()),
                 pair.divergence.other_digests);
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
  print_pairs(methods);
  fmt::print("\n{:<13} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9} {:>11} {:>9} {:>9}\n", "nats", "margin", "1 %", "slope",
             "shift", "99 %", "exposed", "at the flip", "predicted", "measured");
  for (const study::MethodResult& method : methods) {
    const study::Divergence& pairs = method.compared();
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
  fmt::print("\n{:<13} {:<24} {:>10} {:>8} {:>10} {:>30}\n", "numerics", "run", "seconds", "±", "tokens/s",
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

void run_study_compare(const StudyCompareArguments& arguments) {
  std::vector<study::Run> runs;
  for (const std::string& path : arguments.runs) runs.push_back(study::read_run(path));
  const std::vector<study::MethodResult> methods = study::compare_runs(runs);
  if (arguments.json) {
    nlohmann::ordered_json json = {
        {"version", kVersion}, {"runs", nlohmann::ordered_json::array()}, {"methods", nlohmann::ordered_json::array()}};
    for (const study::Run& run : runs) json["runs"].push_back(study::to_json(run));
    for (const study::MethodResult& method : methods) json["methods"].push_back(study::to_json(method));
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const study::Run& run : runs) {
      const study::RunHeader& header = run.header;
      fmt::print("{:<24} {}, {}, {} at once, version {}, {} problems\n", run.name, header.device, header.machine,
                 header.batch, header.version, header.problems.size());
      if (!header.vendor.empty()) fmt::print("{:<24} baselines by {}\n", "", header.vendor);
    }
    print(methods);
  }
  study::require_unmoved(methods);
}

}  // namespace

void add_study_compare_command(CLI::App& study) {
  auto arguments = std::make_shared<StudyCompareArguments>();
  CLI::App* command =
      study.add_subcommand("compare", "How often answers differ between runs and seeds, where, and why");
  command->add_option("RUN", arguments->runs, "Runs of the same task, from any machines")->required()->expected(1, -1);
  command->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  command->footer("Exit status: 0 nothing moved that a contract pins, 1 something did or an error, 2 usage.");
  command->callback([arguments] { run_study_compare(*arguments); });
}

}  // namespace reprofuse::cli
