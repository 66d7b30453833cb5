#include "study/ablation/common.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "base/sha256.hpp"
#include "kernels/reference/linear.hpp"
#include "study/probe/bit_difference.hpp"

namespace reprofuse::study {
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
