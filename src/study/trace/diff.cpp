#include <algorithm>

#include "base/check.hpp"
#include "study/trace/trace.hpp"

namespace reprofuse::study {
namespace {

// The first position at which the texts differ, or the length of the shorter one.
std::int64_t common_length(const Trace& a, const Trace& b) {
  const auto ends = std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  return ends.first - a.tokens.begin();
}

void find_element(Difference& difference, const TracedResult& a, const TracedResult& b) {
  difference.elements = a.elements;
  if (a.values.empty() || b.values.empty()) return;
  for (std::int64_t i = 0; i < a.elements; ++i) {
    if (a.word(i) == b.word(i)) continue;
    ++difference.differing;
    if (difference.element) continue;
    difference.element = i;
    difference.word_a = a.word(i);
    difference.word_b = b.word(i);
    difference.value_a = a.value(i);
    difference.value_b = b.value(i);
  }
}

std::optional<Difference> first_difference(const TracedStep& a, const TracedStep& b) {
  Difference difference{.position = a.position};
  for (std::size_t i = 0; i < std::max(a.results.size(), b.results.size()); ++i) {
    const TracedResult* left = i < a.results.size() ? &a.results[i] : nullptr;
    const TracedResult* right = i < b.results.size() ? &b.results[i] : nullptr;
    difference.op = (left != nullptr ? left : right)->op;
    if (left == nullptr || right == nullptr || left->op != right->op) {
      difference.other = fmt::format("{} in A, {} in B", left != nullptr ? left->op : "nothing",
                                     right != nullptr ? right->op : "nothing");
      return difference;
    }
    if (left->dtype != right->dtype || left->elements != right->elements) {
      difference.other = fmt::format("{} elements of {} in A, {} of {} in B", left->elements, dtype_name(left->dtype),
                                     right->elements, dtype_name(right->dtype));
      return difference;
    }
    if (left->sha256 != right->sha256) {
      find_element(difference, *left, *right);
      return difference;
    }
    difference.before = left->op;
  }
  return std::nullopt;
}

}  // namespace

Comparison compare_traces(const Trace& a, const Trace& b) {
  require(a.model_digest == b.model_digest, "the traces are of different models: {} and {}", a.model_digest,
          b.model_digest);
  const std::int64_t common = common_length(a, b);
  Comparison comparison;
  if (common < static_cast<std::int64_t>(std::min(a.tokens.size(), b.tokens.size())))
    comparison.text_differs_at = common;
  for (const TracedStep& step : a.steps) {
    const auto other = std::find_if(b.steps.begin(), b.steps.end(),
                                    [&](const TracedStep& of_b) { return of_b.position == step.position; });
    if (step.position >= common || other == b.steps.end()) continue;
    ++comparison.positions;
    const std::optional<Difference> difference = first_difference(step, *other);
    if (!difference) ++comparison.equal;
    if (!comparison.first) comparison.first = difference;
    if (!comparison.flip && step.likeliest[0].token != other->likeliest[0].token)
      comparison.flip = {step.position, step.likeliest, other->likeliest};
  }
  require(comparison.positions > 0,
          "the traces have no step in common: the positions differ, or the texts before them (from position {} on)",
          common);
  return comparison;
}

}  // namespace reprofuse::study
