#include "kernels/cpu/sampler/sample.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/sampling.hpp"

namespace reprofuse::cpu {
namespace {

LogitsSummary summarize(const float* logits, std::size_t count) {
  LogitsSummary summary{logits[0], true};
  for (std::size_t i = 0; i < count; ++i) {
    summary.greatest = std::max(summary.greatest, logits[i]);
    summary.finite = summary.finite && is_finite_bits(logits[i]);
  }
  return summary;
}

void probabilities(const float* logits, std::size_t count, float greatest, float temperature, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = sampling::unnormalized_probability(logits[i], greatest, temperature);
}

constexpr SampleKernels kSample = {.target = "scalar", .summarize = summarize, .probabilities = probabilities};

}  // namespace

const SampleKernels& sample_scalar() {
  return kSample;
}

const SampleKernels& sample_kernels(Isa isa) {
  const SampleKernels* simd = sample_simd(isa);
  return simd != nullptr ? *simd : sample_scalar();
}

namespace {

// Sums and selections over a vocabulary whose tokens have integer weights. Integer sums have no order, so any number of
// workers gives the same result.

// Ids [0, count) in ranges, on the pool or, without one, on the calling thread.
class IdRanges {
 public:
  static constexpr std::int64_t kRange = 8192;

  IdRanges(std::int64_t count, ThreadPool* pool) : count_(count), pool_(count > kRange ? pool : nullptr) {}

  std::int64_t count() const { return count_; }
  int workers() const { return pool_ != nullptr ? pool_->threads() : 1; }

  // body(begin, end, worker)
  template <class Body>
  void for_each(const Body& body) const {
    const auto range = [&](std::int64_t index, int worker) {
      body(index * kRange, std::min(count_, (index + 1) * kRange), worker);
    };
    const std::int64_t ranges = ceil_div(count_, kRange);
    if (pool_ != nullptr) return pool_->parallel_for(ranges, range);
    for (std::int64_t i = 0; i < ranges; ++i) range(i, 0);
  }

 private:
  std::int64_t count_;
  ThreadPool* pool_;
};

// The sum of weight(id) over all ids.
template <class Weight>
std::uint64_t total_weight(const IdRanges& ranges, const Weight& weight) {
  std::vector<std::uint64_t> totals(static_cast<std::size_t>(ranges.workers()));
  ranges.for_each([&](std::int64_t begin, std::int64_t end, int worker) {
    std::uint64_t sum = 0;
    for (std::int64_t id = begin; id < end; ++id) sum += weight(id);
    totals[static_cast<std::size_t>(worker)] += sum;
  });
  std::uint64_t total = 0;
  for (const std::uint64_t part : totals) total += part;
  return total;
}

// Takes ids by descending key until their weights reach `needed`, and returns the key of the last one taken. Keys
// are distinct and have `bits` bits; 1 <= needed <= the sum of all weights. One pass settles eleven bits.
template <class Key, class Weight>
std::uint64_t last_key_taken(const IdRanges& ranges, int bits, const Key& key, const Weight& weight,
                             std::uint64_t needed) {
  constexpr int kDigitBits = 11;
  using Histogram = std::array<std::uint64_t, 1U << kDigitBits>;
  std::vector<Histogram> histograms(static_cast<std::size_t>(ranges.workers()));
  std::uint64_t settled = 0;  // the key's upper digits
  for (int open = bits; open > 0;) {
    const int digit_bits = std::min(kDigitBits, open);
    const int shift = open - digit_bits;
    const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
    for (Histogram& histogram : histograms) histogram.fill(0);
    ranges.for_each([&](std::int64_t begin, std::int64_t end, int worker) {
      Histogram& histogram = histograms[static_cast<std::size_t>(worker)];
      for (std::int64_t id = begin; id < end; ++id)
        if (const std::uint64_t k = key(id); k >> open == settled) histogram[k >> shift & mask] += weight(id);
    });
    std::uint64_t digit = mask;
    for (;; --digit) {
      std::uint64_t sum = 0;
      for (const Histogram& histogram : histograms) sum += histogram[digit];
      if (sum >= needed) break;
      needed -= sum;
    }
    settled = settled << digit_bits | digit;
    open = shift;
  }
  return settled;
}

using kernels::SampleResult;
using kernels::SampleRow;

// A row of logits and what a temperature makes of it.
class Logits {
 public:
  Logits(const float* logits, const IdRanges& ranges, const SampleKernels& kernels)
      : logits_(logits), ranges_(ranges), kernels_(kernels) {
    std::vector<LogitsSummary> parts(static_cast<std::size_t>(ranges.workers()), LogitsSummary{logits[0], true});
    ranges.for_each([&](std::int64_t begin, std::int64_t end, int worker) {
      const LogitsSummary part = kernels.summarize(logits + begin, static_cast<std::size_t>(end - begin));
      LogitsSummary& sum = parts[static_cast<std::size_t>(worker)];
      sum = {std::max(sum.greatest, part.greatest), sum.finite && part.finite};
    });
    for (const LogitsSummary& part : parts)
      summary_ = {std::max(summary_.greatest, part.greatest), summary_.finite && part.finite};
    summary_.greatest += 0.0F;  // -0 counts as +0
  }

  float operator[](std::int64_t id) const { return logits_[id]; }
  float greatest() const { return summary_.greatest; }
  bool finite() const { return summary_.finite; }
  const IdRanges& ranges() const { return ranges_; }

  std::int32_t first_not_finite() const {
    return static_cast<std::int32_t>(std::find_if_not(logits_, logits_ + ranges_.count(), is_finite_bits) - logits_);
  }
  std::int32_t first_greatest() const {
    return static_cast<std::int32_t>(std::find(logits_, logits_ + ranges_.count(), greatest()) - logits_);
  }
  std::uint64_t key(std::int64_t id) const { return sampling::order_key(logits_[id], static_cast<std::uint32_t>(id)); }
  std::uint64_t last_key_of_top(std::int64_t count) const {
    return last_key_taken(
        ranges_, sampling::kKeyBits, [&](std::int64_t id) { return key(id); },
        [](std::int64_t) { return std::uint64_t{1}; }, static_cast<std::uint64_t>(count));
  }
  std::unique_ptr<float[]> probabilities(float temperature) const {
    auto out = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(ranges_.count()));
    ranges_.for_each([&](std::int64_t begin, std::int64_t end, int) {
      kernels_.probabilities(logits_ + begin, static_cast<std::size_t>(end - begin), greatest(), temperature,
                             out.get() + begin);
    });
    return out;
  }

 private:
  const float* logits_;
  const IdRanges& ranges_;
  const SampleKernels& kernels_;
  LogitsSummary summary_{-FLT_MAX, true};
};

std::int32_t draw(const Logits& logits, const SamplingParams& params, std::uint64_t position) {
  const IdRanges& ranges = logits.ranges();
  const std::unique_ptr<float[]> probabilities = logits.probabilities(params.temperature);
  std::uint64_t last = 0;  // keys below it are out
  const auto key = [&](std::int64_t id) { return logits.key(id); };
  const auto weight = [&](std::int64_t id) {
    return key(id) >= last ? sampling::weight_of(probabilities[static_cast<std::size_t>(id)]) : 0;
  };
  if (params.top_k > 0 && params.top_k < ranges.count()) last = logits.last_key_of_top(params.top_k);
  if (params.top_p < 1.0F) {
    const std::uint64_t needed = sampling::nucleus_weight(params.top_p, total_weight(ranges, weight));
    last = last_key_taken(ranges, sampling::kKeyBits, key, weight, needed);
  }
  const auto kept_weight = [&](std::int64_t id) {
    return probabilities[static_cast<std::size_t>(id)] < params.min_p ? 0 : weight(id);
  };
  const std::uint64_t target = sampling::draw_below(total_weight(ranges, kept_weight), params.seed, position);
  const auto ascending = [](std::int64_t id) { return static_cast<std::uint64_t>(sampling::kMaxVocabulary - 1 - id); };
  return static_cast<std::int32_t>(
      sampling::id_of(last_key_taken(ranges, sampling::kIdBits, ascending, kept_weight, target + 1)));
}

void fill_logprobs(const Logits& raw, int count, SampleResult& result) {
  const std::unique_ptr<float[]> probabilities = raw.probabilities(1.0F);
  const float log_total = sampling::log_total(total_weight(
      raw.ranges(), [&](std::int64_t id) { return sampling::weight_of(probabilities[static_cast<std::size_t>(id)]); }));
  const auto logprob = [&](std::int32_t id) { return sampling::logprob(raw[id], raw.greatest(), log_total); };
  result.logprob = logprob(result.token);
  const std::uint64_t own = raw.key(result.token);
  result.rank = static_cast<std::int32_t>(
      total_weight(raw.ranges(), [&](std::int64_t id) { return raw.key(id) >= own ? std::uint64_t{1} : 0; }));
  if (count == 0) return;
  const std::uint64_t last = raw.last_key_of_top(count);
  std::vector<std::uint64_t> keys;
  for (std::int64_t id = 0; id < raw.ranges().count(); ++id)
    if (const std::uint64_t key = raw.key(id); key >= last) keys.push_back(key);
  std::sort(keys.begin(), keys.end(), std::greater<>());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto id = static_cast<std::int32_t>(sampling::id_of(keys[i]));
    result.top[i] = {id, logprob(id)};
  }
}

void fill_logits_root(const float* logits, const IdRanges& ranges, SampleResult& result) {
  constexpr std::int64_t kLeaf = sampling::kLogitsPerLeaf;
  static_assert(IdRanges::kRange % kLeaf == 0, "a leaf lies in one range");
  std::vector<Sha256::Digest> leaves(static_cast<std::size_t>(sampling::logits_leaves(ranges.count())));
  ranges.for_each([&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t id = begin; id < end; id += kLeaf)
      leaves[static_cast<std::size_t>(id / kLeaf)] =
          merkle_leaf(std::span(logits + id, static_cast<std::size_t>(std::min(kLeaf, end - id))));
  });
  std::ranges::copy(merkle_root(std::move(leaves)), result.logits_root);
}

SampleResult sample_row(const SampleRow& row, const IdRanges& ranges, const SampleKernels& kernels) {
  std::vector<float> penalized;
  if (row.seen != nullptr) {
    penalized.resize(static_cast<std::size_t>(ranges.count()));
    ranges.for_each([&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t id = begin; id < end; ++id) penalized[static_cast<std::size_t>(id)] = penalized_logit(row, id);
    });
  }
  const Logits logits(row.seen != nullptr ? penalized.data() : row.logits, ranges, kernels);
  SampleResult result;
  if (row.logits_root) fill_logits_root(row.logits, ranges, result);
  if (!logits.finite()) {
    result.not_finite = logits.first_not_finite();
    return result;
  }
  if (row.given >= 0)
    result.token = row.given;
  else
    result.token = row.params.temperature > 0.0F ? draw(logits, row.params, row.position) : logits.first_greatest();
  if (row.logprobs >= 0)
    fill_logprobs(row.seen != nullptr ? Logits(row.logits, ranges, kernels) : logits, row.logprobs, result);
  return result;
}

}  // namespace

void sample(std::span<const SampleRow> rows, std::int64_t vocabulary, Isa isa, ThreadPool& pool,
            std::span<SampleResult> results) {
  const SampleKernels& kernels = sample_kernels(isa);
  // Enough rows to go round: a row to a thread. Otherwise the threads share each row.
  if (rows.size() >= static_cast<std::size_t>(pool.threads())) {
    const IdRanges ranges(vocabulary, nullptr);
    pool.parallel_for(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(i);
      results[at] = sample_row(rows[at], ranges, kernels);
    });
    return;
  }
  const IdRanges ranges(vocabulary, &pool);
  for (std::size_t i = 0; i < rows.size(); ++i) results[i] = sample_row(rows[i], ranges, kernels);
}

}  // namespace reprofuse::cpu
