#include "cli/bench_command.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "study/bench_linear.hpp"

namespace reprofuse::cli {
namespace {

struct BenchArguments {
  std::string device = "cpu";
  std::string shapes = "llama-3.2-3b";
  std::vector<std::int64_t> m = {1, 8, 32, 64, 512};
  std::vector<std::string> numerics = {std::string(kDefaultNumerics)};
  std::string weights = "bf16";
  std::string isa;  // empty: the best there is
  int threads = 0;
  std::string json;  // empty: no file
};

std::unique_ptr<study::LinearTimer> make_timer(const BenchArguments& arguments, const std::string& numerics) {
  const DType weights = arguments.weights == "f32"   ? DType::kF32
                        : arguments.weights == "f16" ? DType::kF16
                                                     : DType::kBF16;
  const study::BenchTarget target{
      .numerics = numerics, .weights = weights, .isa = parse_isa(arguments.isa), .threads = arguments.threads};
  return arguments.device == "cuda" ? study::make_cuda_linear_timer(target) : study::make_cpu_linear_timer(target);
}

void print_header(const study::LinearTimer& timer, const std::string& numerics) {
  fmt::print("Contract {} on {}\nSGEMM: {}\n", numerics, timer.description(), timer.sgemm_description());
  fmt::print("read: weights per second as a part of a plain streaming read; vs SGEMM: above 1 is faster than it\n\n");
}

// The vendor's BF16 is measured for all rows of a timer or for none, so the first row says which columns there are.
void print_columns(const study::BenchRow& first) {
  fmt::print("{:<8} {:>13} {:>5}  {:>10} {:>10} {:>10}  {:>8} {:>6}  {:>9}  {:>10} {:>8}", "", "N x K", "M",
             "median us", "fastest", "p90", "GB/s", "read", "GFLOP/s", "SGEMM us", "vs SGEMM");
  if (first.bf16) fmt::print("  {:>10} {:>8}", "BF16 us", "vs BF16");
  fmt::print("\n");
}

constexpr double kMicroseconds = 1e6;

void print_baseline(const study::Times& times, double ratio) {
  fmt::print("  {:>10.1f} {:>8.2f}", times.median * kMicroseconds, ratio);
}

void print_row(const study::BenchRow& row) {
  const auto shape = fmt::format("{} x {}", row.shape.n, row.shape.k);
  fmt::print("{:<8} {:>13} {:>5}  {:>10.1f} {:>10.1f} {:>10.1f}  {:>8.2f} {:>6.2f}  {:>9.1f}", row.shape.name, shape,
             row.m, row.linear.median * kMicroseconds, row.linear.fastest * kMicroseconds,
             row.linear.p90 * kMicroseconds, row.gigabytes_per_second(), row.read_fraction(), row.gigaflops());
  if (row.sgemm)
    print_baseline(*row.sgemm, *row.sgemm_ratio());
  else
    fmt::print("  {:>10} {:>8}", "-", "-");
  if (row.bf16) print_baseline(*row.bf16, *row.bf16_ratio());
  fmt::print("\n");
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const study::Times& times) {
  return {{"median_s", times.median}, {"fastest_s", times.fastest}, {"p90_s", times.p90}};
}

nlohmann::ordered_json to_json(const study::BenchRow& row) {
  nlohmann::ordered_json json = {{"name", row.shape.name},
                                 {"m", row.m},
                                 {"n", row.shape.n},
                                 {"k", row.shape.k},
                                 {"weights", dtype_name(row.weights)},
                                 {"contract", row.numerics},
                                 {"implementation", row.implementation},
                                 {"linear", to_json(row.linear)},
                                 {"gigabytes_per_second", row.gigabytes_per_second()},
                                 {"gigaflops", row.gigaflops()},
                                 {"read", to_json(row.read.times)},
                                 {"read_bytes", row.read.bytes},
                                 {"read_fraction", row.read_fraction()},
                                 {"sgemm", nullptr},
                                 {"sgemm_ratio", nullptr}};
  if (row.sgemm) {
    json["sgemm"] = to_json(*row.sgemm);
    json["sgemm_ratio"] = *row.sgemm_ratio();
  }
  if (row.bf16) {
    json["bf16"] = to_json(*row.bf16);
    json["bf16_ratio"] = *row.bf16_ratio();
  }
  return json;
}

// Opened before anything is measured, so that a wrong path costs no time.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path) : path_(path), file_(path) {
    require(file_.is_open(), "{}: cannot be written", path_);
  }

  void write(const nlohmann::ordered_json& json) {
    file_ << json.dump(2) << "\n";
    file_.close();
    require(!file_.fail(), "{}: cannot be written", path_);
  }

 private:
  std::string path_;
  std::ofstream file_;
};

void run_bench_linear(const BenchArguments& arguments) {
  require(arguments.isa.empty() || arguments.device == "cpu", "--isa {} goes with --device cpu, not {}", arguments.isa,
          arguments.device);
  const auto shapes = study::parse_bench_shapes(arguments.shapes);
  std::optional<JsonFile> json_file;
  if (!arguments.json.empty()) json_file.emplace(arguments.json);
  const Terminal terminal;
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const std::string& numerics : arguments.numerics) {
    const auto timer = make_timer(arguments, numerics);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    print_header(*timer, numerics);
    for (const study::BenchShape& shape : shapes) {
      terminal.progress(fmt::format("bench {}: {} x {} ...", shape.name, shape.n, shape.k));
      timer->measure(shape, arguments.m, [&](const study::BenchRow& row) {
        terminal.clear_progress();
        if (rows.empty()) print_columns(row);
        print_row(row);
        rows.push_back(to_json(row));
        terminal.progress(fmt::format("bench {}: {} x {} ...", shape.name, shape.n, shape.k));
      });
      terminal.clear_progress();
      if (*std::max_element(arguments.m.begin(), arguments.m.end()) > shape.max_m)
        fmt::print("{:<8} up to M = {} only: a prompt needs it for its last token alone\n", shape.name, shape.max_m);
    }
    runs.push_back({{"contract", numerics},
                    {"device", timer->description()},
                    {"sgemm", timer->sgemm_description()},
                    {"rows", rows}});
  }
  if (json_file) json_file->write({{"version", kVersion}, {"runs", runs}});
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* bench = app.add_subcommand("bench", "Measure speed beside its baselines, in one run");
  bench->require_subcommand(1);
  CLI::App* linear = bench->add_subcommand("linear", "The linear layer, a streaming read and the vendor's SGEMM");
  linear->add_option("--device", arguments->device, "Where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  linear
      ->add_option("--shapes", arguments->shapes,
                   fmt::format("NxK[,NxK], or {}", fmt::join(study::bench_models(), ", ")))
      ->capture_default_str();
  linear->add_option("--m", arguments->m, "Batch sizes")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  linear->add_option("--numerics", arguments->numerics, "Contracts to compare")->delimiter(',')->capture_default_str();
  linear->add_option("--weights", arguments->weights, "Type of the weights")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  linear->add_option("--isa", arguments->isa, "CPU kernels to force (default: the best this machine runs)")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512", "neon"}));
  linear->add_option("--threads", arguments->threads, "CPU threads; 0 takes every core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  linear->add_option("--json", arguments->json, "Also write the results to this file");
  linear->callback([arguments] { run_bench_linear(*arguments); });
}

}  // namespace reprofuse::cli
