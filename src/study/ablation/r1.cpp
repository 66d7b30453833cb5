// R1: what multiplies and adds. Tensor cores round in ways that no document pins, and operands of TF32 or BF16 lose
// what binary32 was for; both show against binary64 and against the reference's bits.
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "study/ablation/ablate.hpp"

namespace reprofuse::study {
namespace {

using ablation::Arithmetic;
using ablation::Variant;

struct Setting {
  std::string label;
  Method method;
};

constexpr std::size_t kIeee = 0;  // the first setting: every rule on

struct Tally {
  std::int64_t equal = 0;        // cases with the shipped layer's bits
  double worst_share = 0;        // of values that differ
  double worst_error = 0;        // against binary64
  std::vector<double> decode{};  // times, as parts of the IEEE variant's
  std::vector<double> prefill{};
  std::vector<double> errors{};  // of each case
  std::vector<double> times{};   // of each case
};

std::vector<Setting> settings(const AblationMachine& machine) {
  const auto on_tensor_cores = [&](const char* operands) {
    return fmt::format("{} {}", operands, machine.has_tensor_cores() ? "tensor cores" : "operands, emulated");
  };
  std::vector<Setting> all = {{"IEEE FMA (all rules on)", Variant{}},
                              {"multiply, then add", Variant{.arithmetic = Arithmetic::kMultiplyThenAdd}},
                              {on_tensor_cores("TF32"), Variant{.arithmetic = Arithmetic::kTf32}},
                              {on_tensor_cores("3xTF32"), Variant{.arithmetic = Arithmetic::kTf32x3}},
                              {on_tensor_cores("BF16"), Variant{.arithmetic = Arithmetic::kBf16}}};
  for (const std::string& vendor : machine.vendors())
    all.push_back({fmt::format("{} {}", machine.vendor_library(), vendor), Vendor{vendor}});
  all.push_back({"shipped kernel", Shipped{}});
  return all;
}

// Returns whether the shipped layer has the reference's bits.
bool measure(const AblationMachine& machine, LoadedCase& operands, const std::vector<Setting>& all,
             std::vector<Tally>& tallies) {
  const std::int64_t m = operands.rows();
  const Fp64Sample exact(operands, m);
  const std::vector<float> shipped = operands.run(Shipped{}, m);
  const double base = operands.seconds(all[kIeee].method, m);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Tally& tally = tallies[i];
    const std::vector<float> y = operands.run(all[i].method, m);
    const std::size_t differ = values_that_differ(y, shipped);
    tally.equal += differ == 0;
    tally.worst_share = std::max(tally.worst_share, static_cast<double>(differ) / static_cast<double>(y.size()));
    tally.errors.push_back(exact.worst_error(y));
    tally.worst_error = std::max(tally.worst_error, tally.errors.back());
    tally.times.push_back(i == kIeee ? 1.0 : seconds_beside_ablated(machine, operands, all[i].method, m) / base);
    if (operands.shape().kind == CaseKind::kDecode) tally.decode.push_back(tally.times.back());
    if (operands.shape().kind == CaseKind::kPrefill) tally.prefill.push_back(tally.times.back());
  }
  return values_that_differ(shipped, operands.reference(m)) == 0;
}

Table summary(const std::vector<Setting>& all, const std::vector<Tally>& tallies, std::size_t cases) {
  Table table{.title = "R1: arithmetic, everything else as in the contract",
              .columns = {"arithmetic", "bits of the shipped kernel", "values that differ, worst",
                          "error vs FP64, worst", "time, decode", "time, prefill"},
              .rows = {},
              .note =
                  "Errors are parts of the largest result. Times are medians relative to IEEE FMA in the same ablated "
                  "kernel; the shipped kernel and the libraries have schedules of their own."};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tally& tally = tallies[i];
    table.rows.push_back({all[i].label, fmt::format("{}/{}", tally.equal, cases),
                          fmt::format("{:.1f} %", tally.worst_share * 100), tally.worst_error, median(tally.decode),
                          median(tally.prefill)});
  }
  return table;
}

Table per_case(std::string title, const AblationOptions& options, const std::vector<Setting>& all,
               const std::vector<Tally>& tallies, std::vector<double> Tally::*values) {
  Table table{.title = std::move(title), .columns = {"case"}, .rows = {}};
  for (const Setting& setting : all) table.columns.push_back(setting.label);
  for (std::size_t c = 0; c < options.cases.size(); ++c) {
    std::vector<Cell> row = {options.cases[c].name};
    for (const Tally& tally : tallies) row.emplace_back((tally.*values)[c]);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The same library with the kernels of several machines, beside ours on every instruction set.
void add_vendor_kernels(AblationMachine& machine, const AblationOptions& options, Experiment& experiment) {
  Table table{.title = "R1 on the CPU: OpenBLAS SGEMM with the kernels of several machines, beside ours",
              .columns = {"kernels", "cases with the bits of the first of its kind"},
              .rows = {}};
  const auto cases = options.cases.size();
  const auto kernels = options.vendor_kernels ? options.vendor_kernels() : std::vector<VendorKernels>{};
  for (const VendorKernels& each : kernels) {
    std::size_t equal = 0;
    for (std::size_t c = 0; c < cases; ++c) equal += each.digests.at(c) == kernels[0].digests.at(c);
    table.rows.push_back({"OpenBLAS, " + each.name, fmt::format("{}/{}", equal, cases)});
  }
  std::vector<std::string> names;
  std::int64_t one_result = 0;
  for (const AblationCase& shape : options.cases) {
    const auto operands = machine.load(shape);
    const std::int64_t m = operands->rows();
    names = operands->schedules(m);
    Outcomes outcomes;
    for (std::size_t i = 0; i < names.size(); ++i)
      outcomes.add(matrix_of(operands->run(ShippedSchedule{i}, m), m, operands->columns()));
    one_result += outcomes.distinct() == 1;
  }
  table.rows.push_back({fmt::format("ours, {} ways: {} to {}", names.size(), names.front(), names.back()),
                        fmt::format("{}/{}", one_result, cases)});
  experiment.claims.push_back(claim_of(fmt::format("one result on {} instruction sets and thread counts", names.size()),
                                       one_result, static_cast<std::int64_t>(cases)));
  if (kernels.empty()) table.note = "OpenBLAS was not found here, or was not asked.";
  experiment.tables.push_back(std::move(table));
}

}  // namespace

Experiment ablate_r1(AblationMachine& machine, const AblationOptions& options) {
  Experiment experiment = open_experiment(
      machine, "r1", "R1: IEEE FMA only",
      "operands are rounded as tensor cores round them, and summed in IEEE arithmetic; machines differ by OpenBLAS's "
      "kernels and by instruction sets.");
  claim_rules_on(machine, options, experiment);
  const std::vector<Setting> all = settings(machine);
  std::vector<Tally> tallies(all.size());
  std::int64_t equal = 0;
  for (const AblationCase& shape : options.cases) {
    options.progress(fmt::format("ablate r1: {} ...", shape.name));
    equal += measure(machine, *machine.load(shape), all, tallies);
  }
  experiment.claims.push_back(claim_of(fmt::format("the shipped layer gives the bits of {}", machine.reference_name()),
                                       equal, static_cast<std::int64_t>(options.cases.size())));
  experiment.tables.push_back(summary(all, tallies, options.cases.size()));
  experiment.tables.push_back(per_case("R1: error against FP64", options, all, tallies, &Tally::errors));
  experiment.tables.push_back(
      per_case("R1: time relative to IEEE FMA in the ablated kernel", options, all, tallies, &Tally::times));
  if (machine.has_instruction_sets()) add_vendor_kernels(machine, options, experiment);
  return experiment;
}

std::vector<std::string> vendor_digests(AblationMachine& machine, const AblationOptions& options) {
  std::vector<std::string> digests;
  for (const AblationCase& shape : options.cases) {
    const auto operands = machine.load(shape);
    const std::int64_t m = operands->rows();
    digests.push_back(sha256_hex(matrix_of(operands->run(Vendor{kVendorSgemm}, m), m, operands->columns())));
  }
  return digests;
}

}  // namespace reprofuse::study
