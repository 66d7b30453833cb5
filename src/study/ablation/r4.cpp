// R4: whether a row's bits depend on the rows beside it. A split or a tile chosen for the batch at hand makes them do
// so; a tree that is a function of K does not, at any batch size.
#include <algorithm>
#include <functional>

#include "base/check.hpp"
#include "study/ablation/ablate.hpp"

namespace reprofuse::study {
namespace {

using ablation::Variant;

constexpr std::int64_t kMaxPrefillWidth =
    100'000;  // wider is a vocabulary, which is projected for decode batches alone

struct Policy {
  std::string name;
  std::function<Method(LoadedCase&, std::int64_t m)> choose;
};

struct Measurement {
  std::vector<bool> same;         // row 0 as at m = 1, by policy
  double pinned, shipped, tuned;  // seconds
};

struct ShapeResult {
  std::string name;
  std::vector<Measurement> batches;  // in the order of the batch sizes, as far as they go for this shape
};

constexpr std::size_t kOurs = 0, kTuned = 2;  // among the policies

std::vector<Policy> policies(const AblationMachine& machine) {
  const int multiprocessors = machine.multiprocessors();
  std::vector<Policy> all = {
      {"ours", [](LoadedCase&, std::int64_t) { return Shipped{}; }},
      {"occupancy-sized split",
       [multiprocessors](LoadedCase& operands, std::int64_t m) {
         return Variant{.splits = wave_sized_splits(m, operands.shape().n, ablation::kPinnedTile, multiprocessors)};
       }},
      {"tuned per M", [&machine](LoadedCase& operands, std::int64_t m) {
         return tune(operands, candidates(machine.tiles(m), kTunedSplits), m);
       }}};
  for (const std::string& vendor : machine.vendors())
    all.push_back({fmt::format("{} {}", machine.vendor_library(), vendor),
                   [vendor](LoadedCase&, std::int64_t) { return Vendor{vendor}; }});
  return all;
}

std::vector<float> first_row(LoadedCase& operands, const Method& method, std::int64_t m) {
  std::vector<float> y = operands.run(method, m);
  y.resize(static_cast<std::size_t>(operands.columns()));
  return y;
}

ShapeResult measure(const AblationMachine& machine, LoadedCase& operands, const std::vector<Policy>& all,
                    std::span<const std::int64_t> batches) {
  ShapeResult result{operands.shape().name, {}};
  std::vector<std::vector<float>> alone;  // row 0 at m = 1, by policy
  alone.reserve(all.size());
  for (const Policy& policy : all) alone.push_back(first_row(operands, policy.choose(operands, 1), 1));
  for (const std::int64_t m : batches) {
    Measurement measured{
        {}, operands.seconds(Variant{}, m), seconds_beside_ablated(machine, operands, Shipped{}, m), 0};
    for (std::size_t p = 0; p < all.size(); ++p) {
      const Method method = all[p].choose(operands, m);
      measured.same.push_back(values_that_differ(first_row(operands, method, m), alone[p]) == 0);
      if (p == kTuned) measured.tuned = operands.seconds(method, m);
    }
    result.batches.push_back(std::move(measured));
  }
  return result;
}

Table decode_table(const std::vector<Policy>& all, const std::vector<ShapeResult>& shapes) {
  const auto count = static_cast<std::int64_t>(std::size(kDecodeBatches));
  Table table{
      .title = fmt::format("R4: batch sizes of {} in 1 to 64 at which row 0 differs from its bits at M = 1", count),
      .columns = {"decode shape"},
      .rows = {}};
  for (const Policy& policy : all) table.columns.push_back(policy.name);
  std::vector<std::int64_t> invariant_shapes(all.size());
  for (const ShapeResult& shape : shapes) {
    std::vector<Cell> row = {shape.name};
    for (std::size_t p = 0; p < all.size(); ++p) {
      std::int64_t differs = 0;
      for (std::int64_t b = 0; b < count; ++b) differs += !shape.batches[static_cast<std::size_t>(b)].same[p];
      row.emplace_back(differs);
      invariant_shapes[p] += differs == 0;
    }
    table.rows.push_back(std::move(row));
  }
  std::vector<Cell> last = {fmt::format("shapes of {} with one row 0", shapes.size())};
  last.insert(last.end(), invariant_shapes.begin(), invariant_shapes.end());
  table.rows.push_back(std::move(last));
  return table;
}

// Calls see(shape's measurement) for every shape that goes as far as batch b.
template <typename See>
std::int64_t for_each_at(const std::vector<ShapeResult>& shapes, std::size_t b, See see) {
  std::int64_t count = 0;
  for (const ShapeResult& shape : shapes) {
    if (b >= shape.batches.size()) continue;
    see(shape.batches[b]);
    ++count;
  }
  return count;
}

Table beyond_table(const std::vector<Policy>& all, const std::vector<ShapeResult>& shapes,
                   std::span<const std::int64_t> batches) {
  Table table{.title = "R4 beyond the paper: shapes whose row 0 has its bits of M = 1 across the edge at 64 and above",
              .columns = {"M"},
              .rows = {},
              .note =
                  "The paper's own row 0 changes at M = 65, where its prefill configuration begins. The vocabulary "
                  "projection ends at M = 64."};
  for (const Policy& policy : all) table.columns.push_back(policy.name);
  for (std::size_t b = std::size(kDecodeBatches) - 1; b < batches.size(); ++b) {
    std::vector<Cell> row = {batches[b]};
    for (std::size_t p = 0; p < all.size(); ++p) {
      std::int64_t same = 0;
      const std::int64_t of = for_each_at(shapes, b, [&](const Measurement& at) { same += at.same[p]; });
      row.emplace_back(fmt::format("{}/{}", same, of));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table cost_table(const std::vector<ShapeResult>& shapes, std::span<const std::int64_t> batches) {
  Table table{
      .title = "R4: what a tuner for each M would gain",
      .columns = {"M", "tuned / pinned, time", "tuned / shipped, time"},
      .rows = {},
      .note =
          "Medians over the shapes. Pinned: the ablated kernel with every rule on and one tile, as the paper pins "
          "it. Shipped: the layer with its free schedule. Below 1, the tuned kernel is faster."};
  for (std::size_t b = 0; b < batches.size(); ++b) {
    std::vector<double> pinned, shipped;
    for_each_at(shapes, b, [&](const Measurement& at) {
      pinned.push_back(at.tuned / at.pinned);
      shipped.push_back(at.tuned / at.shipped);
    });
    if (!pinned.empty()) table.rows.push_back({batches[b], median(pinned), median(shipped)});
  }
  return table;
}

}  // namespace

Experiment ablate_r4(AblationMachine& machine, const AblationOptions& options) {
  Experiment experiment = open_experiment(
      machine, "r4", "R4: batch invariance",
      fmt::format("the occupancy rule is that of a GPU with {} multiprocessors, its sums computed here; the library is "
                  "OpenBLAS.",
                  machine.multiprocessors()));
  claim_rules_on(machine, options, experiment);
  std::vector<std::int64_t> batches(std::begin(kDecodeBatches), std::end(kDecodeBatches));
  for (const std::int64_t m : machine.batches_beyond_decode()) batches.push_back(m);
  const std::vector<Policy> all = policies(machine);
  std::vector<ShapeResult> shapes;
  for (const AblationCase& shape : options.cases) {
    if (shape.kind != CaseKind::kDecode) continue;
    options.progress(fmt::format("ablate r4: {} ...", shape.name));
    const std::size_t count = shape.n > kMaxPrefillWidth ? std::size(kDecodeBatches) : batches.size();
    const auto operands = machine.load(shape, batches[count - 1]);
    shapes.push_back(measure(machine, *operands, all, std::span(batches).first(count)));
  }
  std::int64_t invariant_shapes = 0;
  for (const ShapeResult& shape : shapes)
    invariant_shapes +=
        std::all_of(shape.batches.begin(), shape.batches.end(), [](const Measurement& at) { return at.same[kOurs]; });
  experiment.claims.push_back(claim_of(fmt::format("row 0 has the same bits at every M from 1 to {}", batches.back()),
                                       invariant_shapes, static_cast<std::int64_t>(shapes.size())));
  experiment.tables = {decode_table(all, shapes), beyond_table(all, shapes, batches), cost_table(shapes, batches)};
  return experiment;
}

}  // namespace reprofuse::study
