// R2: who chooses the schedule. In a usual GEMM the split is one of the knobs that an autotuner turns, and it moves
// bits; in the contract the tree is a function of K, so a tuner may choose what it likes.
#include <algorithm>
#include <array>
#include <limits>

#include "base/check.hpp"
#include "study/ablation/ablate.hpp"

namespace reprofuse::study {
namespace {

using ablation::Tile;
using ablation::Variant;

constexpr int kSearches = 3;
constexpr int kAwkwardSplits[] = {1, 2, 3, 4, 6, 8};  // some leave a K tile over, so the tile has a say in the splits
constexpr std::int64_t kManyValues = std::int64_t{1} << 20;  // results too large to look at with every split

// Pairs of candidates that differ in one knob alone.
struct Knob {
  std::string name;
  std::int64_t pairs = 0;
  std::int64_t moved = 0;  // pairs with different bits
};

struct Knobs {
  std::array<Knob, 4> all = {Knob{"B_M"}, Knob{"B_N"}, Knob{"B_K"}, Knob{"split S"}};

  void add(const Variant& a, const Variant& b, bool moved) {
    const bool differs[] = {a.tile.m != b.tile.m, a.tile.n != b.tile.n, a.tile.k != b.tile.k, a.splits != b.splits};
    if (std::count(std::begin(differs), std::end(differs), true) != 1) return;
    Knob& knob = all[static_cast<std::size_t>(std::find(std::begin(differs), std::end(differs), true) - differs)];
    ++knob.pairs;
    knob.moved += moved;
  }
};

// Runs the candidates and returns which outcome each has.
std::vector<std::size_t> outcomes_of(LoadedCase& operands, std::span<const Variant> menu, Outcomes& outcomes) {
  std::vector<std::size_t> which;
  for (const Variant& candidate : menu)
    which.push_back(
        outcomes.add(matrix_of(operands.run(candidate, operands.rows()), operands.rows(), operands.columns())));
  return which;
}

void compare_knobs(LoadedCase& operands, std::span<const Variant> menu, Knobs& knobs) {
  Outcomes outcomes;
  const std::vector<std::size_t> which = outcomes_of(operands, menu, outcomes);
  for (std::size_t i = 0; i < menu.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) knobs.add(menu[i], menu[j], which[i] != which[j]);
}

std::vector<Cell> search(const AblationMachine& machine, LoadedCase& operands, std::span<const Variant> menu) {
  const std::int64_t m = operands.rows();
  std::vector<Variant> found;  // the winners, each once
  std::int64_t pinned_bits = 0;
  const auto pinned = operands.run(Variant{}, m);
  for (int i = 0; i < kSearches; ++i) {
    const Variant winner = tune(operands, menu, m);
    pinned_bits += values_that_differ(operands.run(winner, m), pinned) == 0;
    if (std::find(found.begin(), found.end(), winner) == found.end()) found.push_back(winner);
  }
  std::string winners;
  double best = std::numeric_limits<double>::infinity();
  for (const Variant& winner : found) {
    winners += (winners.empty() ? "" : " / ") + to_string(winner);
    best = std::min(best, operands.seconds(winner, m));
  }
  Outcomes outcomes;
  outcomes_of(operands, menu, outcomes);
  return {operands.shape().name,
          winners,
          static_cast<std::int64_t>(menu.size()),
          static_cast<std::int64_t>(outcomes.distinct()),
          fmt::format("{}/{}", pinned_bits, kSearches),
          operands.seconds(Variant{}, m) / best,
          seconds_beside_ablated(machine, operands, Shipped{}, m) / best};
}

// Every schedule that the shipped layer could take.
std::size_t count_schedules(LoadedCase& operands, Outcomes& outcomes) {
  const std::int64_t m = operands.rows();
  const std::size_t count = operands.schedules(m).size();
  for (std::size_t i = 0; i < count; ++i)
    outcomes.add(matrix_of(operands.run(ShippedSchedule{i}, m), m, operands.columns()));
  return count;
}

Table knob_table(const Knobs& knobs) {
  Table table{
      .title = "R2: pairs of candidates that differ in one knob, and in bits",
      .columns = {"knob", "pairs", "of them with other bits"},
      .rows = {},
      .note =
          "The split gives each part the same number of K tiles, as a usual GEMM does; with splits that leave a "
          "tile over (3 and 6 are tried beside 1, 2, 4 and 8) B_K moves the cuts as well."};
  for (const Knob& knob : knobs.all) table.rows.push_back({knob.name, knob.pairs, knob.moved});
  return table;
}

}  // namespace

Experiment ablate_r2(AblationMachine& machine, const AblationOptions& options) {
  Experiment experiment = open_experiment(
      machine, "r2", "R2: no tuned reduction",
      "the same search over tiles of a CPU's size; our schedules are instruction sets and thread counts.");
  claim_rules_on(machine, options, experiment);
  Table searched{
      .title = fmt::format("R2: what the tuner picks in {} searches, and what that does to the bits", kSearches),
      .columns = {"case", "winners (B_M,B_N,B_K) S", "candidates", "distinct outputs", "winners with pinned bits",
                  "pinned / best, time", "shipped / best, time"},
      .rows = {}};
  Table ours{.title = "R2: every schedule of the shipped layer",
             .columns = {"case", "schedules", "distinct outputs"},
             .rows = {}};
  Knobs knobs;
  std::int64_t one_result = 0;
  for (const AblationCase& shape : options.cases) {
    options.progress(fmt::format("ablate r2: {} ...", shape.name));
    const auto operands = machine.load(shape);
    const std::vector<Tile> tiles = machine.tiles(operands->rows());
    searched.rows.push_back(search(machine, *operands, candidates(tiles, kTunedSplits)));
    if (operands->rows() * operands->columns() <= kManyValues)
      compare_knobs(*operands, candidates(tiles, kAwkwardSplits), knobs);
    Outcomes outcomes;
    outcomes.add(matrix_of(operands->run(Shipped{}, operands->rows()), operands->rows(), operands->columns()));
    const std::size_t schedules = count_schedules(*operands, outcomes);
    one_result += outcomes.distinct() == 1;
    ours.rows.push_back(
        {shape.name, static_cast<std::int64_t>(schedules), static_cast<std::int64_t>(outcomes.distinct())});
  }
  experiment.claims.push_back(claim_of("no schedule of the shipped layer moves a bit", one_result,
                                       static_cast<std::int64_t>(options.cases.size())));
  experiment.tables = {std::move(searched), knob_table(knobs), std::move(ours)};
  return experiment;
}

}  // namespace reprofuse::study
