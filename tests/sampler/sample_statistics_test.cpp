// Draws follow the probabilities they should: chi-square tests with fixed seeds, so they never fail by chance.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference/reference.hpp"
#include "sampler/sample_case.hpp"

namespace reprofuse {
namespace {

constexpr std::size_t kVocabulary = 16;
constexpr int kDraws = 20'000;

std::vector<double> probabilities(const std::vector<float>& logits, double temperature) {
  std::vector<double> shares;
  double sum = 0;
  for (const float logit : logits) sum += shares.emplace_back(std::exp(static_cast<double>(logit) / temperature));
  for (double& share : shares) share /= sum;
  return shares;
}

double chi_square(const std::vector<int>& counts, const std::vector<double>& shares) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = shares[i] * kDraws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

std::vector<float> logits() {
  std::vector<float> values;
  for (std::size_t i = 0; i < kVocabulary; ++i) values.push_back(static_cast<float>((i * 7) % kVocabulary) * 0.25F);
  return values;
}

// The 99.9th and the 0.1th percentile of chi-square with 15 degrees of freedom.
constexpr double kHigh = 37.7, kLow = 3.48;

template <class RequestOf>
std::vector<int> count_tokens(const RequestOf& request_of) {
  const std::vector<float> values = logits();
  std::vector<int> counts(kVocabulary);
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    kernels::SampleRow row = request_of(i);
    row.logits = values.data();
    ++counts[static_cast<std::size_t>(reference::sample(row, kVocabulary).token)];
  }
  return counts;
}

kernels::SampleRow request(float temperature, std::uint64_t seed, std::uint64_t position) {
  kernels::SampleRow row;
  row.params.temperature = temperature;
  row.params.seed = seed;
  row.position = position;
  return row;
}

TEST(SampleStatistics, DrawsOverPositionsFollowTheProbabilities) {
  for (const float temperature : {0.7F, 1.0F, 2.0F}) {
    const std::vector<int> counts = count_tokens([&](std::uint64_t i) { return request(temperature, 42, i); });
    const double statistic = chi_square(counts, probabilities(logits(), static_cast<double>(temperature)));
    EXPECT_LT(statistic, kHigh) << temperature;
    EXPECT_GT(statistic, kLow) << temperature;
  }
}

TEST(SampleStatistics, DrawsOverSeedsFollowTheProbabilities) {
  const std::vector<int> counts = count_tokens([](std::uint64_t i) { return request(1, i, 7); });
  const double statistic = chi_square(counts, probabilities(logits(), 1));
  EXPECT_LT(statistic, kHigh);
  EXPECT_GT(statistic, kLow);
}

TEST(SampleStatistics, AWrongTemperatureIsSeen) {
  const std::vector<int> counts = count_tokens([](std::uint64_t i) { return request(1.1F, 42, i); });
  EXPECT_GT(chi_square(counts, probabilities(logits(), 1)), kHigh);
}

// Pairs of tokens at neighbouring positions, in four classes each.
TEST(SampleStatistics, NeighbouringPositionsAreIndependent) {
  const std::vector<float> even(4, 1.0F);
  std::vector<int> pairs(16);
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    std::size_t pair = 0;
    for (std::uint64_t step = 0; step < 2; ++step) {
      kernels::SampleRow row = request(1, 9, 2 * i + step);
      row.logits = even.data();
      pair = 4 * pair + static_cast<std::size_t>(reference::sample(row, 4).token);
    }
    ++pairs[pair];
  }
  EXPECT_LT(chi_square(pairs, std::vector<double>(16, 1.0 / 16)), kHigh);
}

}  // namespace
}  // namespace reprofuse
