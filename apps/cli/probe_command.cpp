#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "cli/commands.hpp"
#include "cli/device_options.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "reprofuse/context.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::cli {
namespace {

struct ProbeArguments {
  std::string numerics{kDefaultNumerics};
  std::string device = "cpu";
  std::string isa;  // empty: the best there is
  int threads = 0;
  bool json = false;
  bool check = false;
  bool quick = false;
  bool reference = false;
  std::vector<std::string> cases;
  bool models = false;  // besides `cases`
  std::string golden;
  std::string write_golden;
};

// What computes, and how to name it.
struct Subject {
  study::PrepareLinear prepare;
  std::string description;
};

// --threads counts for the reference, too, so that it may stand beside any device.
Context open_context(const ProbeArguments& arguments) {
  return Context::open(arguments.device, arguments.numerics, parse_isa(arguments.isa),
                       takes_threads(arguments.device) ? arguments.threads : 0);
}

Subject make_subject(const ProbeArguments& arguments, const Numerics& contract, ThreadPool& pool) {
  if (arguments.reference)
    return {study::reference_of(contract, pool), fmt::format("cpu reference loops, threads: {}", pool.threads())};
  const Context context = open_context(arguments);
  return {study::kernels_of(context), context.description()};
}

// All of a digest, or its start where a terminal has no room beside `other` columns.
std::size_t digest_width(const Terminal& terminal, std::size_t other) {
  constexpr std::size_t kWhole = 64, kShort = 16;
  return terminal.columns() == 0 || terminal.columns() >= other + kWhole ? kWhole : kShort;
}

// Whole models are probed with all linear cases, with a selection when asked for, and not with the reference loops.
bool wants_models(const ProbeArguments& arguments) {
  return (arguments.cases.empty() || arguments.models) && !arguments.reference && arguments.golden.empty();
}

std::vector<study::ModelProbeResult> probe_models(const ProbeArguments& arguments, const Terminal& terminal) {
  const Context context = open_context(arguments);
  const study::ModelGolden golden = study::parse_model_golden({}, arguments.numerics);
  const std::size_t width = digest_width(terminal, 51);
  if (!arguments.json)
    fmt::print("\n{:<20}  {:<{}}  {:<6}  {:<12}  {:>7}\n", "model", "sha256 of logits", width, "golden", "passes",
               "time");
  std::vector<study::ModelProbeResult> results;
  for (const study::ModelCase& spec : study::model_cases()) {
    terminal.progress(fmt::format("probe model {} ...", spec.name));
    results.push_back(study::probe_model(context, spec, golden, study::probe_plans(arguments.quick)));
    terminal.clear_progress();
    const study::ModelProbeResult& result = results.back();
    if (arguments.json) continue;
    fmt::print("{:<20}  {}  {}  {}  {:>6.2f}s\n", result.name, result.digest.substr(0, width),
               result.golden ? terminal.green("same  ") : terminal.red("DIFFER"),
               result.difference.empty() ? terminal.green("invariant   ") : terminal.red("NOT THE SAME"),
               result.seconds);
    std::fflush(stdout);
  }
  return results;
}

std::string first_model_failure(const std::vector<study::ModelProbeResult>& models) {
  for (const study::ModelProbeResult& model : models) {
    if (!model.golden) return fmt::format("the logits of model {} are not the committed ones", model.name);
    if (!model.difference.empty())
      return fmt::format("the logits of model {} have other bits with {}", model.name, model.difference);
  }
  return {};
}

study::ProbeOptions make_options(const ProbeArguments& arguments) {
  study::ProbeOptions options{.cases = arguments.quick ? study::quick_probe_cases() : study::all_probe_cases(),
                              .max_batch = arguments.quick ? study::kMaxQuickProbeRows : study::kMaxProbeRows,
                              .explain = arguments.check};
  if (!arguments.cases.empty())
    options.cases = reading_option("--cases", [&] { return study::select_cases(options.cases, arguments.cases); });
  return options;
}

// "cuda sm_90" without the name of its backend: "sm_90"; "avx512 vnni" without the extension: "avx512".
std::string isa_of(const std::string& implementation, const std::string& device) {
  const std::string backend = fmt::format("{} ", parse_device(device).backend->name);
  const std::size_t begin = implementation.starts_with(backend) ? backend.size() : 0;
  return implementation.substr(begin, implementation.find(' ', begin) - begin);
}

void print_json(const ProbeArguments& arguments, const study::ProbeReport& report,
                const std::vector<study::ModelProbeResult>& models, int threads) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const study::CaseResult& result : report.cases)
    cases.push_back({{"name", result.spec.name},
                     {"m", result.spec.m},
                     {"n", result.spec.n},
                     {"k", result.spec.k},
                     {"weights", dtype_name(result.spec.weights)},
                     {"sha256", result.sha256}});
  nlohmann::ordered_json models_json = nlohmann::ordered_json::array();
  for (const study::ModelProbeResult& model : models)
    models_json.push_back({{"name", model.name},
                           {"sha256", model.digest},
                           {"matches_golden", model.golden},
                           {"invariant", model.difference.empty()}});
  const nlohmann::ordered_json root = {
      {"contract", arguments.numerics},
      {"device", arguments.device},
      {"isa", isa_of(report.implementation(), arguments.device)},
      {"cases", cases},
      {"models", models_json},
      {"row_invariant", report.row_invariant()},
      {"matches_golden", report.matches_golden() && first_model_failure(models).empty()},
      {"implementation", report.implementation()},
      {"threads", threads},
      {"version", kVersion}};
  fmt::print("{}\n", root.dump(2));
}

class ProbeTable {
 public:
  explicit ProbeTable(const Terminal& terminal) : terminal_(terminal) {
    digest_width_ = digest_width(terminal, kFixedWidth);
  }

  void print_header() const {
    fmt::print("{:<20}  {:>15}  {:<4}  {:<{}}  {:<6}  {:>7}\n", "case", "MxNxK", "type", "sha256", digest_width_,
               "golden", "time");
  }

  void print_row(const study::CaseResult& result) const {
    const study::ProbeCase& spec = result.spec;
    const auto shape = fmt::format("{}x{}x{}", spec.m, spec.n, spec.k);
    fmt::print("{:<20}  {:>15}  {:<4}  {}  {}  {:>6.2f}s\n", spec.name, shape, dtype_name(spec.weights),
               result.sha256.substr(0, digest_width_), mark(result.verdict), result.seconds);
    std::fflush(stdout);
  }

 private:
  static constexpr std::size_t kFixedWidth = 62;  // of all other columns

  std::string mark(study::GoldenVerdict verdict) const {
    switch (verdict) {
      case study::GoldenVerdict::kMatches: return terminal_.green("same  ");
      case study::GoldenVerdict::kMissing: return "none  ";
      case study::GoldenVerdict::kDiffers:
      case study::GoldenVerdict::kOtherOperands: break;
    }
    return terminal_.red("DIFFER");
  }

  const Terminal& terminal_;
  std::size_t digest_width_;
};

void print_verdict(const Terminal& terminal, const study::ProbeReport& report, const study::ProbeOptions& options,
                   const std::vector<study::ModelProbeResult>& models) {
  const auto sizes = study::batch_sizes(options.max_batch).size();
  if (report.row_invariant())
    fmt::print(
        "\nRows: {}. Each row has the same bits alone and in {} batch sizes up to M = {}, in every weight type.\n",
        terminal.green("invariant"), sizes, options.max_batch);
  else
    fmt::print("\nRows: {}. {}.\n", terminal.red("NOT INVARIANT"), report.row_difference->description());
  if (const std::string failure = first_model_failure(models); !failure.empty())
    fmt::print("Models: {}. {}.\n", terminal.red("NOT THE SAME"), failure);
  else if (!models.empty())
    fmt::print("Models: {}. All {} have the committed logits, in one pass, in chunks and beside other texts.\n",
               terminal.green("the same"), models.size());
  if (report.matches_golden())
    fmt::print(
        "Digests: {}. All {} are the contract's golden digests: these are the bits every other machine computes.\n",
        terminal.green("the same"), report.cases.size());
  else
    fmt::print("Digests: {}. {}.\n", terminal.red("NOT the contract's"), report.first_failure());
}

void write_golden(const ProbeArguments& arguments, const Numerics& contract, const study::ProbeReport& report) {
  study::Golden golden{.contract = std::string(contract.linear->name), .cases = {}};
  for (const study::CaseResult& result : report.cases) golden.cases.push_back({result.spec, result.sha256});
  study::write_golden(arguments.write_golden, golden);
}

study::Golden golden_of(const ProbeArguments& arguments, const Numerics& contract) {
  if (!arguments.golden.empty()) return study::read_golden(arguments.golden);
  return study::parse_golden(study::golden_file(contract.linear->name), "the built-in golden digests");
}

void run_probe_command(const ProbeArguments& arguments) {
  check_usage(takes_threads(arguments.device) || arguments.isa.empty(),
              fmt::format("--isa {} goes with --device cpu, not {}", arguments.isa, arguments.device));
  if (!arguments.write_golden.empty()) study::require_new_file(arguments.write_golden);
  const Numerics& contract = find_contract(arguments.numerics);
  const study::Golden golden = golden_of(arguments, contract);
  const study::ProbeOptions options = make_options(arguments);
  ThreadPool pool(arguments.threads == 0 ? available_cores() : arguments.threads);
  const Subject subject = make_subject(arguments, contract, pool);

  const Terminal terminal;
  const ProbeTable table(terminal);
  study::ProbeObserver observer;
  observer.on_start = [&](std::size_t step, std::size_t steps, const std::string& name) {
    terminal.progress(fmt::format("probe {}/{} {} ...", step, steps, name));
  };
  if (!arguments.json) {
    fmt::print("Contract {} on {}\n", contract.name, subject.description);
    if (!contract.names_its_linear())
      fmt::print("Its linear layer is that of {}, and so are the digests of the cases\n", contract.linear->name);
    fmt::print("\n");
    table.print_header();
    observer.on_result = [&](const study::CaseResult& result) {
      terminal.clear_progress();
      table.print_row(result);
    };
  }
  const study::ProbeReport report = study::run_probe(contract, golden, subject.prepare, options, pool, observer);
  terminal.clear_progress();
  invariant(arguments.isa.empty() || isa_of(report.implementation(), arguments.device) == arguments.isa,
            "other kernels ran than --isa asked for");

  std::vector<study::ModelProbeResult> models;
  if (wants_models(arguments)) models = probe_models(arguments, terminal);
  if (arguments.json)
    print_json(arguments, report, models, pool.threads());
  else
    print_verdict(terminal, report, options, models);
  std::fflush(stdout);
  if (!arguments.write_golden.empty()) write_golden(arguments, contract, report);
  const std::string failure = report.first_failure().empty() ? first_model_failure(models) : report.first_failure();
  if (arguments.check && !failure.empty()) fail(ErrorCode::kInternal, "probe: {}", failure);
}

std::vector<std::string_view> names_of_contracts() {
  std::vector<std::string_view> names;
  for (const Numerics& contract : contracts()) names.push_back(contract.name);
  return names;
}

}  // namespace

void add_probe_command(CLI::App& app) {
  auto arguments = std::make_shared<ProbeArguments>();
  CLI::App* probe = app.add_subcommand("probe", "Compute fixed cases and show the SHA-256 of the bits of each");
  probe
      ->add_option("--numerics", arguments->numerics,
                   fmt::format("Contract that defines the bits: {}", contract_names()))
      ->check(one_of(names_of_contracts()))
      ->type_name("NAME")
      ->capture_default_str();
  add_device_only_options(*probe, arguments->device, arguments->isa, arguments->threads);
  probe->add_flag("--json", arguments->json, "Print one JSON object and nothing else");
  probe->add_flag("--check", arguments->check, "Exit 1 unless every digest is golden and every row batch-invariant");
  auto* cases = probe->add_option("--cases", arguments->cases, "Only these cases: names or globs, comma-separated")
                    ->delimiter(',');
  auto* models =
      probe->add_flag("--models", arguments->models, "With --cases: probe the whole models as well")->needs(cases);
  auto* quick = probe->add_flag("--quick", arguments->quick,
                                "Only the seven small cases and batches up to 65: a minute under an emulator");
  probe->add_option("--golden", arguments->golden, "Compare with this file, not with the built-in digests")
      ->type_name("FILE")
      ->excludes(models);
  probe->add_option("--write-golden", arguments->write_golden, "Write the digests of all cases to a new file")
      ->type_name("FILE")
      ->excludes(cases)
      ->excludes(quick);
  probe->add_flag("--reference", arguments->reference, "Compute with the loops that define the bits (slow)")
      ->excludes(probe->get_option("--device"))
      ->excludes(probe->get_option("--isa"))
      ->excludes(models);
  probe->callback([arguments] { run_probe_command(*arguments); });
}

}  // namespace reprofuse::cli
