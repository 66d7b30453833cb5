// The sampler, and the root of a row of logits.
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/sampling.hpp"

namespace reprofuse::reference {
namespace {

using kernels::SampleResult;
using kernels::SampleRow;
using Ids = std::vector<std::int32_t>;
using Values = std::vector<float>;  // by id

float greatest_of(const Values& logits) {
  return *std::max_element(logits.begin(), logits.end()) + 0.0F;  // -0 counts as +0
}

// The most likely first; of equal logits, the smallest id first.
Ids ids_by_rank(const Values& logits) {
  Ids ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  return ids;
}

std::uint64_t total_weight(const Values& probabilities, const Ids& ids) {
  std::uint64_t total = 0;
  for (const std::int32_t id : ids) total += sampling::weight_of(probabilities[static_cast<std::size_t>(id)]);
  return total;
}

// The length of the shortest prefix of `ids` whose weight is at least `needed`.
std::size_t prefix_length(const Values& probabilities, const Ids& ids, std::uint64_t needed) {
  std::uint64_t sum = 0;
  std::size_t length = 0;
  while (sum < needed) sum += sampling::weight_of(probabilities[static_cast<std::size_t>(ids[length++])]);
  return length;
}

std::int32_t draw(const Values& logits, const SamplingParams& params, std::uint64_t position) {
  const float greatest = greatest_of(logits);
  Values probabilities(logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id)
    probabilities[id] = sampling::unnormalized_probability(logits[id], greatest, params.temperature);

  Ids kept = ids_by_rank(logits);
  if (params.top_k > 0) kept.resize(std::min(kept.size(), static_cast<std::size_t>(params.top_k)));
  kept.resize(
      prefix_length(probabilities, kept, sampling::nucleus_weight(params.top_p, total_weight(probabilities, kept))));
  std::erase_if(kept, [&](std::int32_t id) { return probabilities[static_cast<std::size_t>(id)] < params.min_p; });

  std::sort(kept.begin(), kept.end());
  const std::uint64_t total = total_weight(probabilities, kept);
  const std::uint64_t target = sampling::draw_below(total, params.seed, position);
  return kept[prefix_length(probabilities, kept, target + 1) - 1];
}

void fill_logprobs(const SampleRow& row, const Values& raw, SampleResult& result) {
  const float greatest = greatest_of(raw);
  std::uint64_t total = 0;
  for (const float logit : raw) total += sampling::weight_of(exp_nonpositive_f32(logit - greatest));
  const float log_total = sampling::log_total(total);
  const auto logprob = [&](std::int32_t id) {
    return sampling::logprob(raw[static_cast<std::size_t>(id)], greatest, log_total);
  };
  result.logprob = logprob(result.token);
  const Ids ids = ids_by_rank(raw);
  result.rank = static_cast<std::int32_t>(std::find(ids.begin(), ids.end(), result.token) - ids.begin()) + 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(row.logprobs); ++i) result.top[i] = {ids[i], logprob(ids[i])};
}

}  // namespace

Sha256::Digest logits_root(std::span<const float> row) {
  constexpr auto kLeaf = static_cast<std::size_t>(sampling::kLogitsPerLeaf);
  std::vector<Sha256::Digest> leaves;
  for (; !row.empty(); row = row.subspan(std::min(row.size(), kLeaf)))
    leaves.push_back(merkle_leaf(row.first(std::min(row.size(), kLeaf))));
  return merkle_root(std::move(leaves));
}

SampleResult sample(const SampleRow& row, std::int64_t vocabulary) {
  Values logits;
  for (std::int64_t id = 0; id < vocabulary; ++id) logits.push_back(penalized_logit(row, id));
  SampleResult result;
  if (row.logits_root) std::ranges::copy(logits_root({row.logits, logits.size()}), result.logits_root);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (is_finite_bits(logits[id])) continue;
    result.not_finite = static_cast<std::int32_t>(id);
    return result;
  }
  if (row.given >= 0)
    result.token = row.given;
  else
    result.token = row.params.temperature > 0.0F ? draw(logits, row.params, row.position) : ids_by_rank(logits).front();
  if (row.logprobs >= 0) fill_logprobs(row, Values(row.logits, row.logits + vocabulary), result);
  return result;
}

}  // namespace reprofuse::reference
