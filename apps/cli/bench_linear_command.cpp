#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/bench_load.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/option_values.hpp"
#include "cli/output_file.hpp"
#include "cli/terminal.hpp"
#include "cli/usage.hpp"
#include "ops/context_state.hpp"
#include "ops/contract.hpp"
#include "study/bench/linear.hpp"

namespace reprofuse::cli {
namespace {

struct BenchArguments {
  std::string device = "cpu";
  std::string as;  // empty: the device itself
  std::string shapes = "llama-3.2-3b";
  std::vector<std::int64_t> m = {1, 8, 32, 64, 512};
  std::vector<std::string> numerics;  // empty: the default and the baselines that the device has
  std::string weights = "bf16";
  std::string isa;  // empty: the best there is
  int threads = 0;
  std::string json;  // empty: no file
  std::string plot;  // likewise
};

// What is measured, and what each is compared with in the same run.
struct Selection {
  std::vector<std::string> subjects;
  std::vector<std::string> baselines;
};

kernels::Multiplier multiplier_of(const Numerics& numerics, const BenchArguments& arguments) {
  return numerics.linear->multiplier_on(parse_device(arguments.device).backend->name);
}

// BF16 is no baseline of its own where no library at hand multiplies it, nor for other weights.
bool is_default_baseline(const Numerics& baseline, const BenchArguments& arguments) {
  if (baseline.linear->multiplier != kernels::Multiplier::kBf16) return true;
  return multiplier_of(baseline, arguments) == kernels::Multiplier::kBf16 &&
         arguments.weights == dtype_name(DType::kBF16);
}

Selection default_selection(const BenchArguments& arguments) {
  Selection chosen{.subjects = {std::string(default_numerics(arguments.device))}, .baselines = {}};
  for (const Numerics& baseline : baselines())
    if (is_default_baseline(baseline, arguments)) chosen.baselines.emplace_back(baseline.name);
  return chosen;
}

// Every contract of the list is compared with every baseline of it. Without a contract, the first baseline is compared
// with the others.
Selection select(const BenchArguments& arguments) {
  if (arguments.numerics.empty()) return default_selection(arguments);
  Selection chosen;
  for (const std::string& name : arguments.numerics)
    (find_numerics(name).is_contract() ? chosen.subjects : chosen.baselines).push_back(name);
  if (chosen.subjects.empty()) {
    chosen.subjects.push_back(chosen.baselines.front());
    chosen.baselines.erase(chosen.baselines.begin());
  }
  return chosen;
}

std::unique_ptr<study::LinearTimer> make_timer(const BenchArguments& arguments, const std::string& numerics,
                                               const std::vector<std::string>& baselines) {
  const DType weights = arguments.weights == "f32"   ? DType::kF32
                        : arguments.weights == "f16" ? DType::kF16
                                                     : DType::kBF16;
  const study::BenchTarget target{.device = arguments.device,
                                  .numerics = numerics,
                                  .baselines = baselines,
                                  .baselines_may_miss = arguments.numerics.empty(),
                                  .weights = weights,
                                  .isa = parse_isa(arguments.isa),
                                  .threads = arguments.threads};
  return study::make_linear_timer(target);
}

constexpr double kMicroseconds = 1e6;
constexpr double kMilliseconds = 1e3;

// Whether the peak FMA rate bounds these numerics: integer sums and BF16 units have limits of their own.
bool sums_by_fma(const std::string& numerics, const BenchArguments& arguments) {
  return multiplier_of(find_numerics(numerics), arguments) == kernels::Multiplier::kBinary32;
}

// At most 100 columns: three baselines fit.
void print_header(const study::LinearTimer& timer, const std::string& numerics, const BenchArguments& arguments,
                  bool baselines_wanted) {
  const std::vector<std::string> baselines = timer.baselines();
  fmt::print("{} {} on {}{}\n", find_numerics(numerics).is_contract() ? "Contract" : "Numerics", numerics,
             timer.description(), arguments.numerics.empty() ? DeviceArguments::kDefaultNote : "");
  if (baselines_wanted)
    fmt::print("{}: {}\n", baselines.empty() ? "No baselines" : "Baselines", timer.vendor_description());
  if (sums_by_fma(numerics, arguments))
    fmt::print("read, fma: parts of a plain streaming read's bandwidth and of the peak FMA rate; 1 is the floor\n");
  else
    fmt::print("read: part of a plain streaming read's bandwidth; 1 is the floor. FMAs are no floor of {}\n", numerics);
  if (!baselines.empty()) fmt::print("vs: above 1 is so many times faster than that baseline\n");
  for (const std::string& name : baselines)
    if (multiplier_of(find_numerics(name), arguments) == kernels::Multiplier::kBf16)
      fmt::print("{}: the product alone, of activations that are BF16 already\n", name);
  fmt::print("\n{:<8} {:>13} {:>5} {:>10} {:>9} {:>5} {:>5}", "", "N x K", "M", "median us", "p90", "read", "fma");
  for (const std::string& baseline : baselines) fmt::print(" {:>12}", "vs " + baseline);
  fmt::print("\n");
}

void print_row(const study::BenchRow& row, bool by_fma) {
  fmt::print("{:<8} {:>13} {:>5} {:>10.1f} {:>9.1f} {:>5.2f} {:>5}", row.shape.model.empty() ? "" : row.shape.name,
             fmt::format("{} x {}", row.shape.n, row.shape.k), row.m, row.linear.times.median * kMicroseconds,
             row.linear.times.p90 * kMicroseconds, row.read_fraction(),
             by_fma ? fmt::format("{:.2f}", row.fma_fraction()) : "-");
  for (const study::Measured& baseline : row.baselines) fmt::print(" {:>12.2f}", row.ratio_to(baseline));
  fmt::print("\n");
  std::fflush(stdout);
}

void print_forwards(std::span<const study::ForwardSum> sums, const std::string& numerics,
                    const std::vector<std::string>& baselines) {
  if (sums.empty()) return;
  fmt::print("\nAs one forward: the medians of every layer's projections and, where measured, the head's, in ms\n");
  fmt::print("{:<12} {:>6} {:>4} {:>5} {:>12}", "", "layers", "head", "M", numerics);
  for (const std::string& baseline : baselines) fmt::print(" {:>10} {:>6}", baseline, "vs");
  fmt::print("\n");
  for (const study::ForwardSum& sum : sums) {
    fmt::print("{:<12} {:>6} {:>4} {:>5} {:>12.3f}", sum.model, sum.layers, sum.with_head ? "yes" : "no", sum.m,
               sum.linear * kMilliseconds);
    for (const double seconds : sum.baselines)
      fmt::print(" {:>10.3f} {:>6.2f}", seconds * kMilliseconds, seconds / sum.linear);
    fmt::print("\n");
  }
}

nlohmann::ordered_json to_json(const study::Times& times) {
  return {{"median_s", times.median}, {"fastest_s", times.fastest}, {"p90_s", times.p90}};
}

nlohmann::ordered_json to_json(const study::BenchRow& row, bool by_fma) {
  nlohmann::ordered_json json = {{"name", row.shape.name},
                                 {"m", row.m},
                                 {"n", row.shape.n},
                                 {"k", row.shape.k},
                                 {"weights", dtype_name(row.weights)},
                                 {"contract", row.linear.numerics},
                                 {"implementation", row.linear.implementation},
                                 {"linear", to_json(row.linear.times)},
                                 {"workspace_bytes", row.linear.workspace_bytes},
                                 {"gigabytes_per_second", row.gigabytes_per_second()},
                                 {"gigaflops", row.gigaflops()},
                                 {"read", to_json(row.read.times)},
                                 {"read_bytes", row.read.bytes},
                                 {"read_fraction", row.read_fraction()},
                                 {"fma_fraction", nullptr}};
  if (by_fma) json["fma_fraction"] = row.fma_fraction();
  for (const study::Measured& baseline : row.baselines) {
    json[baseline.numerics] = to_json(baseline.times);
    json[baseline.numerics + "_ratio"] = row.ratio_to(baseline);
  }
  return json;
}

nlohmann::ordered_json to_json(const study::ForwardSum& sum, const std::vector<std::string>& baselines) {
  nlohmann::ordered_json json = {{"model", sum.model},
                                 {"m", sum.m},
                                 {"layers", sum.layers},
                                 {"with_head", sum.with_head},
                                 {"linear_s", sum.linear}};
  for (std::size_t b = 0; b < baselines.size(); ++b) {
    json[baselines[b] + "_s"] = sum.baselines[b];
    json[baselines[b] + "_ratio"] = sum.baselines[b] / sum.linear;
  }
  return json;
}

std::vector<study::BenchRow> measure_and_print(study::LinearTimer& timer, const std::vector<study::BenchShape>& shapes,
                                               const std::vector<std::int64_t>& ms, bool by_fma) {
  const Terminal terminal;
  std::vector<study::BenchRow> rows;
  for (const study::BenchShape& shape : shapes) {
    const std::string progress = fmt::format("bench {}: {} x {} ...", shape.name, shape.n, shape.k);
    terminal.progress(progress);
    timer.measure(shape, ms, [&](const study::BenchRow& row) {
      terminal.clear_progress();
      print_row(row, by_fma);
      rows.push_back(row);
      terminal.progress(progress);
    });
    terminal.clear_progress();
    if (*std::max_element(ms.begin(), ms.end()) > shape.max_m)
      fmt::print("{:<8} up to M = {} only: a prompt needs it for its last token alone\n", shape.name, shape.max_m);
  }
  return rows;
}

void check_together(const BenchArguments& arguments) {
  check_usage(takes_threads(arguments.device) || (arguments.isa.empty() && arguments.threads == 0),
              fmt::format("--isa and --threads go with --device cpu, not {}", arguments.device));
  act_as(arguments.as, arguments.device);
  check_usage(arguments.json.empty() || arguments.json != arguments.plot,
              fmt::format("--json and --plot name the same file, {}", arguments.json));
}

void run_bench_linear(const BenchArguments& arguments) {
  check_together(arguments);
  const auto shapes = study::parse_bench_shapes(arguments.shapes);
  const Selection selection = select(arguments);
  OutputFile json_file(arguments.json), plot_file(arguments.plot);
  std::vector<study::BenchRow> all_rows;
  std::string device;
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  const OtherLoadWarning other_load(takes_threads(arguments.device));
  for (const std::string& numerics : selection.subjects) {
    const auto timer = make_timer(arguments, numerics, selection.baselines);
    if (!runs.empty()) fmt::print("\n");
    print_header(*timer, numerics, arguments, !selection.baselines.empty());
    const bool by_fma = sums_by_fma(numerics, arguments);
    const std::vector<study::BenchRow> rows = measure_and_print(*timer, shapes, arguments.m, by_fma);
    const std::vector<study::ForwardSum> forwards = study::sum_forwards(rows);
    all_rows.insert(all_rows.end(), rows.begin(), rows.end());
    device = timer->description();
    print_forwards(forwards, numerics, timer->baselines());
    nlohmann::ordered_json run = {{"contract", numerics},
                                  {"pins_bits", find_numerics(numerics).is_contract()},
                                  {"device", timer->description()},
                                  {"baselines", timer->baselines()},
                                  {"vendor", timer->vendor_description()},
                                  {"rows", nlohmann::ordered_json::array()},
                                  {"forwards", nlohmann::ordered_json::array()}};
    for (const study::BenchRow& row : rows) run["rows"].push_back(to_json(row, by_fma));
    for (const study::ForwardSum& sum : forwards) run["forwards"].push_back(to_json(sum, timer->baselines()));
    runs.push_back(std::move(run));
  }
  other_load.print();
  json_file.write(nlohmann::ordered_json({{"version", kVersion}, {"runs", runs}}).dump(2) + "\n");
  if (plot_file.is_wanted()) plot_file.write(study::to_svg(study::plot_linear(all_rows, device)));
}

}  // namespace

void add_bench_linear_command(CLI::App& bench) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = bench.add_subcommand("linear", "The linear layer beside a streaming read and the baselines");
  const auto names_shapes = [](const std::string& text) -> std::string {
    try {
      study::parse_bench_shapes(text);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  add_device_only_options(*command, arguments->device, arguments->isa, arguments->threads);
  add_as_option(*command, arguments->as);
  command
      ->add_option("--shapes", arguments->shapes,
                   fmt::format("NxK[,NxK], or {}", fmt::join(study::bench_models(), ", ")))
      ->check(CLI::Validator(names_shapes, ""))
      ->capture_default_str();
  add_number_list(*command, "--m", arguments->m, std::int64_t{1} << 20, "Batch sizes");
  add_numerics_list(*command, arguments->numerics, "Contracts, and baselines to compare them with",
                    fmt::format("{}, and every baseline", default_numerics_names()));
  command->add_option("--weights", arguments->weights, "Type of the weights")
      ->check(one_of({"bf16", "f16", "f32"}))
      ->capture_default_str();
  add_output_file(*command, "--json", arguments->json, "Also write the results to this file");
  add_output_file(*command, "--plot", arguments->plot, "Also draw time over M, with both floors, into this file (SVG)");
  command->callback([arguments] { run_bench_linear(*arguments); });
}

}  // namespace reprofuse::cli
