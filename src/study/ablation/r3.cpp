// R3: how the splits of K come together. Atomic additions come in the order of a race; a split sized by the device
// makes the device part of the result.
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "study/ablation/ablate.hpp"

namespace reprofuse::study {
namespace {

using ablation::Merge;
using ablation::Variant;

constexpr Variant kNoSplit = {.splits = 1};
constexpr Variant kOrdered = {};
constexpr Variant kAtomic = {.merge = Merge::kAtomic};
constexpr int kLanes[] = {4, 8, 16};  // floats in registers of 128, 256 and 512 bits

struct Race {
  std::size_t distinct;
  double spread;  // between runs, the largest difference as a part of the largest result
};

Race race(LoadedCase& operands, const Variant& variant, int runs) {
  const std::int64_t m = operands.rows();
  Outcomes outcomes;
  const std::vector<float> first = operands.run(variant, m);
  float widest = 0, scale = 0;
  for (const float value : first) scale = std::max(scale, std::abs(value));
  for (int i = 0; i < runs; ++i) {
    const std::vector<float> y = operands.run(variant, m);
    outcomes.add(matrix_of(y, m, operands.columns()));
    for (std::size_t v = 0; v < y.size(); ++v) widest = std::max(widest, std::abs(y[v] - first[v]));
  }
  return {outcomes.distinct(), static_cast<double>(widest / scale)};
}

std::size_t distinct_results(LoadedCase& operands, const std::vector<Method>& methods) {
  Outcomes outcomes;
  for (const Method& method : methods)
    outcomes.add(matrix_of(operands.run(method, operands.rows()), operands.rows(), operands.columns()));
  return outcomes.distinct();
}

std::vector<Cell> swept_row(LoadedCase& operands) {
  std::vector<Method> swept;
  for (const int splits : kSweptSplits) swept.emplace_back(Variant{.splits = splits});
  return {operands.shape().name, static_cast<std::int64_t>(std::size(kSweptSplits)),
          static_cast<std::int64_t>(distinct_results(operands, swept))};
}

// The rule is asked about the whole product, whatever part of its columns this machine computes.
std::vector<Cell> sized_row(LoadedCase& operands) {
  std::vector<Cell> row = {operands.shape().name};
  std::vector<Method> sized;
  for (const int count : kMultiprocessorCounts) {
    const int splits = wave_sized_splits(operands.shape().m, operands.shape().n, ablation::kPinnedTile, count);
    row.emplace_back(std::int64_t{splits});
    sized.emplace_back(Variant{.splits = splits});
  }
  row.emplace_back(static_cast<std::int64_t>(distinct_results(operands, sized)));
  return row;
}

std::vector<Cell> lanes_row(LoadedCase& operands) {
  std::vector<Method> sums;
  for (const int lanes : kLanes) sums.emplace_back(LaneSum{lanes});
  std::vector<Method> ours;
  for (std::size_t i = 0; i < operands.schedules(operands.rows()).size(); ++i) ours.emplace_back(ShippedSchedule{i});
  return {operands.shape().name, static_cast<std::int64_t>(distinct_results(operands, sums)),
          static_cast<std::int64_t>(distinct_results(operands, ours))};
}

struct Tables {
  Table merged, swept, sized, lanes;
};

Tables empty_tables(int runs) {
  Tables tables;
  tables.merged = {
      .title = fmt::format("R3: distinct outputs in {} runs on one machine", runs),
      .columns = {"decode shape", "none", "ordered", "atomic", "atomic: spread", "none / ordered, time",
                  "atomic / ordered, time"},
      .rows = {},
      .note =
          "The splits are the contract's segments in both merges. Spread: the largest difference between two "
          "runs as a part of the largest result."};
  tables.swept = {.title = "R3: the split S swept over 1, 2, 4, 8 and 16, merged in order",
                  .columns = {"decode shape", "values of S", "distinct outputs"},
                  .rows = {}};
  tables.sized = {.title = "R3: the split that fills the last wave best, for devices of several sizes",
                  .columns = {"decode shape"},
                  .rows = {},
                  .note = "The rule is evaluated for each number of multiprocessors; the sums are computed here."};
  for (const int count : kMultiprocessorCounts) tables.sized.columns.push_back(fmt::format("S at {} SMs", count));
  tables.sized.columns.emplace_back("distinct outputs");
  tables.lanes = {.title = "R3 on the CPU: a dot product over the lanes of a register, 128, 256 and 512 bits wide",
                  .columns = {"decode shape", "distinct outputs", "ours, every instruction set and thread count"},
                  .rows = {}};
  return tables;
}

}  // namespace

Experiment ablate_r3(AblationMachine& machine, const AblationOptions& options) {
  Experiment experiment = open_experiment(
      machine, "r3", "R3: deterministic split-K",
      "threads race to add their splits with atomic additions; the width of a SIMD register stands for the size of a "
      "device.");
  claim_rules_on(machine, options, experiment);
  Tables tables = empty_tables(options.runs);
  std::int64_t decode = 0, one_result = 0;
  for (const AblationCase& shape : options.cases) {
    if (shape.kind != CaseKind::kDecode) continue;
    options.progress(fmt::format("ablate r3: {} ...", shape.name));
    const auto operands = machine.load(shape);
    const std::int64_t m = operands->rows();
    const Race none = race(*operands, kNoSplit, options.runs), ordered = race(*operands, kOrdered, options.runs),
               atomic = race(*operands, kAtomic, options.runs);
    const double seconds = operands->seconds(kOrdered, m);
    tables.merged.rows.push_back({shape.name, static_cast<std::int64_t>(none.distinct),
                                  static_cast<std::int64_t>(ordered.distinct),
                                  static_cast<std::int64_t>(atomic.distinct), atomic.spread,
                                  operands->seconds(kNoSplit, m) / seconds, operands->seconds(kAtomic, m) / seconds});
    tables.swept.rows.push_back(swept_row(*operands));
    tables.sized.rows.push_back(sized_row(*operands));
    if (machine.has_instruction_sets()) tables.lanes.rows.push_back(lanes_row(*operands));
    ++decode;
    one_result += ordered.distinct == 1;
  }
  experiment.claims.push_back(
      claim_of(fmt::format("splits merged in order give one result in {} runs", options.runs), one_result, decode));
  experiment.tables = {std::move(tables.merged), std::move(tables.swept), std::move(tables.sized)};
  if (machine.has_instruction_sets()) experiment.tables.push_back(std::move(tables.lanes));
  return experiment;
}

}  // namespace reprofuse::study
