#include "study/ablation/common.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "kernels/reference/reference.hpp"
#include "study/ablation/machine.hpp"
#include "study/probe/bit_difference.hpp"

namespace reprofuse::study {

const std::vector<AblationCase>& ablation_cases() {
  static const std::vector<AblationCase> kCases = {{"QKV, 8B", CaseKind::kDecode, 32, 6144, 4096},
                                                   {"Down, 8B", CaseKind::kDecode, 32, 4096, 14336},
                                                   {"QKV, Qwen3-4B", CaseKind::kDecode, 32, 6144, 2560},
                                                   {"Down, Qwen3-4B", CaseKind::kDecode, 32, 2560, 9728},
                                                   {"Output proj.", CaseKind::kDecode, 32, 4096, 4096},
                                                   {"lm_head, 3B", CaseKind::kDecode, 32, 128256, 3072},
                                                   {"Prefill QKV, 8B", CaseKind::kPrefill, 2048, 6144, 4096},
                                                   {"Prefill down, 8B", CaseKind::kPrefill, 2048, 4096, 14336},
                                                   {"Ragged probe", CaseKind::kRagged, 100, 1000, 1000}};
  return kCases;
}

std::vector<AblationCase> decode_cases() {
  std::vector<AblationCase> cases;
  std::copy_if(ablation_cases().begin(), ablation_cases().end(), std::back_inserter(cases),
               [](const AblationCase& each) { return each.kind == CaseKind::kDecode; });
  return cases;
}

int wave_sized_splits(std::int64_t m, std::int64_t n, const ablation::Tile& tile, int multiprocessors) {
  const std::int64_t tiles = ceil_div<std::int64_t>(m, tile.m) * ceil_div<std::int64_t>(n, tile.n);
  // Compared as fractions of whole numbers: blocks / places, where places fill whole waves.
  std::int64_t best_blocks = 0, best_places = 1;
  int best = 1;
  for (const int splits : kSweptSplits) {
    const std::int64_t blocks = tiles * splits;
    const std::int64_t places = round_up<std::int64_t>(blocks, multiprocessors);
    if (blocks * best_places <= best_blocks * places) continue;
    best_blocks = blocks;
    best_places = places;
    best = splits;
  }
  return best;
}

std::vector<ablation::Tile> for_batch(std::vector<ablation::Tile> tiles, std::int64_t m) {
  constexpr std::int64_t kMaxDecodeRows = 128;
  if (m <= kMaxDecodeRows) return tiles;
  int tallest = 0;
  for (const ablation::Tile& tile : tiles) tallest = std::max(tallest, tile.m);
  std::erase_if(tiles, [&](const ablation::Tile& tile) { return tile.m < tallest; });
  return tiles;
}

std::vector<ablation::Variant> candidates(std::span<const ablation::Tile> tiles, std::span<const int> splits) {
  std::vector<ablation::Variant> variants;
  for (const ablation::Tile& tile : tiles)
    for (const int parts : splits) variants.push_back({.tile = tile, .splits = parts});
  return variants;
}

std::string to_string(const ablation::Variant& variant) {
  const ablation::Tile& tile = variant.tile;
  const std::string splits =
      variant.splits == ablation::kOnePerSegment ? "by segment" : fmt::format("S={}", variant.splits);
  return fmt::format("({},{},{}) {}", tile.m, tile.n, tile.k, splits);
}

namespace {

constexpr std::int64_t kSampledRows = 32;
constexpr std::int64_t kSampledColumns = 64;

}  // namespace

ConstMatrix matrix_of(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  invariant(static_cast<std::int64_t>(values.size()) == rows * columns, "a result has another shape than its case");
  return {values.data(), rows, columns, columns};
}

std::size_t Outcomes::add(ConstMatrix result) {
  return seen_.try_emplace(sha256_hex(result), seen_.size()).first->second;
}

std::size_t values_that_differ(const std::vector<float>& a, const std::vector<float>& b) {
  const auto size = static_cast<std::int64_t>(a.size());
  const auto difference = first_difference(matrix_of(a, 1, size), matrix_of(b, 1, static_cast<std::int64_t>(b.size())));
  return difference ? static_cast<std::size_t>(difference->count) : 0;
}

// A product of two binary32 values is exact in binary64, and so is nearly every sum of them here.
Fp64Sample::Fp64Sample(const LoadedCase& operands, std::int64_t m) {
  const ConstMatrix x = operands.x();
  const WeightView weight = operands.weight();
  const std::int64_t row_step = ceil_div(m, kSampledRows);
  const std::int64_t column_step = ceil_div(weight.n, kSampledColumns);
  for (std::int64_t column = 0; column < weight.n; column += column_step) {
    std::vector<double> w(static_cast<std::size_t>(weight.k));
    for (std::int64_t k = 0; k < weight.k; ++k) w[static_cast<std::size_t>(k)] = reference::widened(weight, column, k);
    for (std::int64_t row = 0; row < m; row += row_step) {
      double sum = 0;
      for (std::int64_t k = 0; k < weight.k; ++k) sum += x.data[row * x.stride + k] * w[static_cast<std::size_t>(k)];
      places_.push_back({static_cast<std::size_t>(row * weight.n + column), sum});
      scale_ = std::max(scale_, std::abs(sum));
    }
  }
}

double Fp64Sample::worst_error(const std::vector<float>& y) const {
  double worst = 0;
  for (const Place& place : places_) worst = std::max(worst, std::abs(y.at(place.index) - place.value));
  return worst / scale_;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_beside_ablated(const AblationMachine& machine, LoadedCase& operands, const Method& method,
                              std::int64_t m) {
  const bool comparable = machine.is_gpu() || std::holds_alternative<ablation::Variant>(method);
  return comparable ? operands.seconds(method, m) : std::numeric_limits<double>::quiet_NaN();
}

Claim claim_of(std::string text, std::int64_t held, std::int64_t of) {
  return {fmt::format("{}, on {} of {}", std::move(text), held, of), held == of && of > 0};
}

Experiment open_experiment(const AblationMachine& machine, std::string rule, std::string title,
                           const std::string& analogue) {
  constexpr const char* kOnEveryCpu =
      " Of each case the first columns are computed, and of a prefill the first rows. A dash stands where times would "
      "not "
      "compare: the ablated layer has its few columns in binary32 and in a cache, the shipped layer has not.";
  return {.rule = std::move(rule),
          .title = std::move(title),
          .machine = machine.description(),
          .analogue = machine.is_gpu() ? "" : analogue + kOnEveryCpu};
}

void claim_rules_on(AblationMachine& machine, const AblationOptions& options, Experiment& experiment) {
  std::int64_t equal = 0;
  for (const AblationCase& shape : options.cases) {
    options.progress(fmt::format("ablate {}: every rule on, {} ...", experiment.rule, shape.name));
    const auto operands = machine.load(shape);
    const std::int64_t m = operands->rows();
    equal += values_that_differ(operands->run(ablation::Variant{}, m), operands->run(Shipped{}, m)) == 0;
  }
  experiment.claims.push_back(claim_of("the ablated layer with every rule on gives the shipped layer's bits", equal,
                                       static_cast<std::int64_t>(options.cases.size())));
}

ablation::Variant tune(LoadedCase& operands, std::span<const ablation::Variant> menu, std::int64_t m) {
  require(!menu.empty(), "ablation '{}': a tuner without candidates", operands.shape().name);
  const ablation::Variant* best = nullptr;
  double least = 0;
  for (const ablation::Variant& candidate : menu) {
    const double seconds = operands.glance(candidate, m);
    if (best != nullptr && seconds >= least) continue;
    best = &candidate;
    least = seconds;
  }
  return *best;
}

}  // namespace reprofuse::study
