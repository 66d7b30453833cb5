
#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.hpp"
#include "study/runs/runs.hpp"

namespace reprofuse::study {
namespace {

constexpr double kTail = 0.1;  // nats

void require_comparable(const Run& first, const Run& other) {
  require(other.complete(), "{}: is not finished: it has {} of {} answers; `study run` with the same options goes on",
          other.name, other.answers.size(), other.header.cells.size() * other.header.problems.size());
  std::set<std::string> keys;
  for (const Run* run : {&first, &other})
    for (const auto& [key, value] : run->header.settings) keys.insert(key);
  for (const std::string& key : keys) {
    const auto value = [&](const Run& run) {
      const auto found = run.header.settings.find(key);
      return found == run.header.settings.end() ? std::string("none") : found->second;
    };
    require(value(first) == value(other), "{} and {} cannot be compared: {} is {} in one and {} in the other",
            first.name, other.name, key, value(first), value(other));
  }
  const auto& ours = first.header.problems;
  const auto& theirs = other.header.problems;
  require(ours.size() == theirs.size(), "{} and {} cannot be compared: they have {} and {} problems", first.name,
          other.name, ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    require(ours[i].id == theirs[i].id && ours[i].prompt_sha256 == theirs[i].prompt_sha256,
            "{} and {} cannot be compared: problem {} is '{}' in one and '{}' in the other, or has another prompt",
            first.name, other.name, i + 1, ours[i].id, theirs[i].id);
}

// Returns whether the tokens differ.
bool add_pair(Divergence& sum, const RunAnswer& a, const RunAnswer& b) {
  const std::size_t common = std::min(a.steps.size(), b.steps.size());
  std::size_t first = 0;
  while (first < common && a.steps[first].token == b.steps[first].token) {
    const float margin = a.steps[first].margin();
    const float shift = std::fabs(margin - b.steps[first].margin());
    sum.shifts.push_back(shift);
    sum.equal_margins += shift == 0 ? 1 : 0;
    sum.exposed += margin < shift ? 1 : 0;
    ++first;
  }
  sum.positions += static_cast<std::int64_t>(first);
  ++sum.pairs;
  if (first == a.steps.size() && first == b.steps.size() && a.finish == b.finish) {
    sum.other_digests += a.digest != b.digest ? 1 : 0;
    return false;
  }
  ++sum.divergent;
  sum.first_index_sum += static_cast<double>(first);
  if (first < a.steps.size()) sum.flip_margins.push_back(a.steps[first].margin());
  return true;
}

void add(Divergence& sum, const Divergence& part) {
  sum.pairs += part.pairs;
  sum.divergent += part.divergent;
  sum.other_digests += part.other_digests;
  sum.first_index_sum += part.first_index_sum;
  sum.positions += part.positions;
  sum.equal_margins += part.equal_margins;
  sum.exposed += part.exposed;
  sum.shifts.insert(sum.shifts.end(), part.shifts.begin(), part.shifts.end());
  sum.flip_margins.insert(sum.flip_margins.end(), part.flip_margins.begin(), part.flip_margins.end());
}

std::vector<std::uint32_t> cells_of(const Run& run, const std::string& numerics) {
  std::vector<std::uint32_t> cells;
  for (std::uint32_t i = 0; i < run.header.cells.size(); ++i)
    if (run.header.cells[i].numerics == numerics) cells.push_back(i);
  return cells;
}

const RunAnswer& answer(const Run& run, std::uint32_t cell, std::uint32_t problem) {
  return run.answers.at({cell, problem});
}

CellTime time_of(const Run& run, const std::vector<std::uint32_t>& cells) {
  CellTime time{.run = run.name};
  double tokens = 0, total = 0, squares = 0;
  std::int64_t known = 0, right = 0;
  for (const std::uint32_t cell : cells) {
    total += run.seconds[cell];
    for (std::uint32_t problem = 0; problem < run.header.problems.size(); ++problem) {
      const RunAnswer& given = answer(run, cell, problem);
      tokens += static_cast<double>(given.steps.size());
      const std::string& wanted = run.header.problems[problem].answer;
      if (wanted.empty()) continue;
      ++known;
      right += is_right(given.text, wanted) ? 1 : 0;
    }
  }
  const auto count = static_cast<double>(cells.size());
  time.mean_seconds = total / count;
  for (const std::uint32_t cell : cells) squares += std::pow(run.seconds[cell] - time.mean_seconds, 2);
  time.deviation = cells.size() < 2 ? 0 : std::sqrt(squares / (count - 1));
  time.tokens_per_second = total > 0 ? tokens / total : 0;
  time.accuracy = accuracy_of(known, right);
  return time;
}

// Treats margin and shift as independent draws. The lengths are those of the answers of the pairs.
void predict(MethodResult& method, const Divergence& pairs, std::span<const double> lengths) {
  if (pairs.shifts.empty() || method.margins.empty() || lengths.empty()) return;
  double below = 0;
  for (const float shift : pairs.shifts)
    below += static_cast<double>(std::lower_bound(method.margins.begin(), method.margins.end(), shift) -
                                 method.margins.begin());
  const double p = 0.5 * below / static_cast<double>(method.margins.size()) / static_cast<double>(pairs.shifts.size());
  double predicted = 0;
  for (const double length : lengths) predicted += 1 - std::pow(1 - p, length);
  method.flip_per_token = p;
  method.predicted = predicted / static_cast<double>(lengths.size());
  method.measured = pairs.fraction();
}

MethodResult compare_method(std::span<const Run> runs, const RunCell& of) {
  MethodResult method{.numerics = of.numerics, .pins_bits = of.pins_bits};
  method.problems = static_cast<std::int64_t>(runs.front().header.problems.size());
  std::set<std::uint32_t> divergent;
  std::vector<double> lengths;
  for (std::size_t a = 0; a < runs.size(); ++a) {
    const std::vector<std::uint32_t> cells = cells_of(runs[a], of.numerics);
    if (cells.empty()) continue;
    method.times.push_back(time_of(runs[a], cells));
    for (std::uint32_t problem = 0; problem < method.problems; ++problem)
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const RunAnswer& given = answer(runs[a], cells[i], problem);
        lengths.push_back(static_cast<double>(given.steps.size()));
        for (const RunStep& step : given.steps) method.margins.push_back(step.margin());
        for (std::size_t j = i + 1; j < cells.size(); ++j)
          add_pair(method.between_seeds, given, answer(runs[a], cells[j], problem));
      }
    for (std::size_t b = a + 1; b < runs.size(); ++b) {
      PairOfRuns pair{.a = runs[a].name, .b = runs[b].name};
      for (const std::uint32_t cell : cells)
        for (const std::uint32_t other : cells_of(runs[b], of.numerics)) {
          if (runs[a].header.cells[cell].seed != runs[b].header.cells[other].seed) continue;
          for (std::uint32_t problem = 0; problem < method.problems; ++problem)
            if (add_pair(pair.divergence, answer(runs[a], cell, problem), answer(runs[b], other, problem)))
              divergent.insert(problem);
        }
      if (pair.divergence.pairs == 0) continue;
      add(method.between_runs, pair.divergence);
      method.pairs.push_back(std::move(pair));
    }
  }
  method.divergent_problems = static_cast<std::int64_t>(divergent.size());
  std::sort(method.margins.begin(), method.margins.end());
  for (Divergence* sum : {&method.between_runs, &method.between_seeds}) {
    std::sort(sum->shifts.begin(), sum->shifts.end());
    std::sort(sum->flip_margins.begin(), sum->flip_margins.end());
  }
  for (PairOfRuns& pair : method.pairs) std::sort(pair.divergence.shifts.begin(), pair.divergence.shifts.end());
  const auto in_tail = std::upper_bound(method.margins.begin(), method.margins.end(), static_cast<float>(kTail));
  if (in_tail != method.margins.begin())
    method.tail_slope =
        static_cast<double>(in_tail - method.margins.begin()) / static_cast<double>(method.margins.size()) / kTail;
  predict(method, method.compared(), lengths);
  return method;
}

}  // namespace

bool MethodResult::moved() const {
  return pins_bits &&
         between_runs.divergent + between_runs.other_digests + between_seeds.divergent + between_seeds.other_digests >
             0;
}

std::vector<MethodResult> compare_runs(std::span<const Run> runs) {
  require(!runs.empty(), "there is no run to look at");
  for (const Run& run : runs) require_comparable(runs.front(), run);
  std::vector<MethodResult> methods;
  std::set<std::string> seen;
  for (const Run& run : runs)
    for (const RunCell& cell : run.header.cells)
      if (seen.insert(cell.numerics).second) methods.push_back(compare_method(runs, cell));
  std::stable_partition(methods.begin(), methods.end(), [](const MethodResult& method) { return method.pins_bits; });
  return methods;
}

void require_unmoved(std::span<const MethodResult> methods) {
  for (const MethodResult& method : methods)
    require(!method.moved(), "answers by {} differ, which pins every bit", method.numerics);
}

float quantile(std::span<const float> ascending, double part) {
  if (ascending.empty()) return 0;
  const auto at = static_cast<std::size_t>(part * static_cast<double>(ascending.size()));
  return ascending[std::min(at, ascending.size() - 1)];
}

Curve cumulative_curve(std::span<const float> ascending) {
  constexpr double kStepsPerDecade = 16;
  Curve curve;
  if (ascending.empty()) return curve;
  const auto count = static_cast<double>(ascending.size());
  const auto positive = std::upper_bound(ascending.begin(), ascending.end(), 0.0F);
  curve.zero = static_cast<double>(positive - ascending.begin()) / count;
  if (positive == ascending.end()) return curve;
  const auto step_at = [](float value) { return static_cast<int>(std::ceil(std::log10(value) * kStepsPerDecade)); };
  curve.first = step_at(*positive);
  const int last = step_at(ascending.back());
  for (int step = curve.first; step < last; ++step) {
    const auto x = static_cast<float>(std::pow(10, step / kStepsPerDecade));
    curve.values.push_back(static_cast<double>(std::upper_bound(positive, ascending.end(), x) - ascending.begin()) /
                           count);
  }
  curve.values.push_back(1);
  return curve;
}

Accuracy accuracy_of(std::int64_t known, std::int64_t right) {
  Accuracy accuracy{.known = known, .right = right};
  if (known == 0) return accuracy;
  constexpr double kZ = 1.959963984540054;
  const auto n = static_cast<double>(known);
  const double p = static_cast<double>(right) / n;
  const double centre = p + kZ * kZ / (2 * n);
  const double spread = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  accuracy.low = std::max(0.0, (centre - spread) / (1 + kZ * kZ / n));
  accuracy.high = std::min(1.0, (centre + spread) / (1 + kZ * kZ / n));
  return accuracy;
}

}  // namespace reprofuse::study
