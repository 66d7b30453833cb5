// What the reference itself must do, on cases small enough to work out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/hash.hpp"
#include "kernels/reference/reference.hpp"
#include "sampler/sample_case.hpp"

namespace reprofuse {
namespace {

using kernels::SampleResult;
using kernels::SampleRow;

SampleResult sample(const std::vector<float>& logits, const SamplingParams& params, std::uint64_t position = 0,
                    int logprobs = -1, const std::uint32_t* seen = nullptr) {
  const SampleRow row{
      .logits = logits.data(), .seen = seen, .params = params, .position = position, .logprobs = logprobs};
  return reference::sample(row, static_cast<std::int64_t>(logits.size()));
}

// The tokens that 400 draws give.
std::set<std::int32_t> support(const std::vector<float>& logits, SamplingParams params) {
  std::set<std::int32_t> tokens;
  for (std::uint64_t position = 0; position < 400; ++position) tokens.insert(sample(logits, params, position).token);
  return tokens;
}

TEST(SampleReference, GreedyTakesTheLowestIdAmongEqualMaxima) {
  EXPECT_EQ(sample({1, 3, 2, 3}, {}).token, 1);
  EXPECT_EQ(sample({-1, -0.0F, 0.0F}, {}).token, 1);
  EXPECT_EQ(sample({-5, -7}, {}).token, 0);
}

TEST(SampleReference, PenaltyAppliesToSeenIdsOnly) {
  const std::uint32_t seen = 0b0010;
  SamplingParams params;
  params.repetition_penalty = 2;
  EXPECT_EQ(sample({1, 3, 2, 0}, params, 0, -1, &seen).token, 2);
  EXPECT_EQ(sample({-1, -0.6F, -2, -3}, params, 0, -1, &seen).token, 0);
  EXPECT_EQ(sample({1, 3, 2, 0}, params).token, 1);
}

TEST(SampleReference, AGivenTokenIsNotChosenButToldOf) {
  const std::vector<float> logits = {1, 3, 2, 3};
  for (const std::int32_t given : {0, 1, 2, 3}) {
    const SampleRow row{.logits = logits.data(), .params = {.temperature = 1}, .given = given, .logprobs = 4};
    const SampleResult result = reference::sample(row, 4);
    const std::int32_t ranks[] = {4, 1, 3, 2};  // of equal logits, the lowest id first
    EXPECT_EQ(result.token, given);
    EXPECT_EQ(result.rank, ranks[given]);
    EXPECT_EQ(result.top[ranks[given] - 1].id, given);
    EXPECT_EQ(float_bits(result.top[ranks[given] - 1].logprob), float_bits(result.logprob));
  }
}

TEST(SampleReference, TopKKeepsTheLargestAndOfEqualOnesTheLowestIds) {
  EXPECT_EQ(support({1, 2, 2, 2, 0}, {.temperature = 10, .top_k = 2}), (std::set<std::int32_t>{1, 2}));
  EXPECT_EQ(support({1, 2, 2, 2, 0}, {.temperature = 10, .top_k = 4}), (std::set<std::int32_t>{0, 1, 2, 3}));
}

// Probabilities, not normalized: 1, 1/2, 1/4, 1/8, 1/8: cumulative shares of 2 are 1/2, 3/4, 7/8, 15/16, 1.
TEST(SampleReference, TopPKeepsTheShortestPrefixThatReachesIt) {
  const auto log2 = static_cast<float>(std::log(2.0));
  const std::vector<float> logits = {-3 * log2, 0, -1 * log2, -3 * log2, -2 * log2};
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.4F}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.7F}), (std::set<std::int32_t>{1, 2}));
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.8F}), (std::set<std::int32_t>{1, 2, 4}));
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.9F}), (std::set<std::int32_t>{0, 1, 2, 4}));
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.0F}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(support(logits, {.temperature = 1}), (std::set<std::int32_t>{0, 1, 2, 3, 4}));
}

// Top-p sees what top-k left: of 1, 1/2 it needs both for 0.7, where of all five it would need two as well, and for
// 0.6 one, where of all five it would need two.
TEST(SampleReference, TopPCountsSharesOfWhatTopKLeft) {
  const auto log2 = static_cast<float>(std::log(2.0));
  const std::vector<float> logits = {0, -1 * log2, -2 * log2, -3 * log2, -3 * log2};
  EXPECT_EQ(support(logits, {.temperature = 1, .top_k = 2, .top_p = 0.6F}), (std::set<std::int32_t>{0}));
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.6F}), (std::set<std::int32_t>{0, 1}));
}

// Min-p comes last, so it does not change the shares that top-p counts.
TEST(SampleReference, MinPDropsWhatIsFarBelowTheMostLikely) {
  const auto log2 = static_cast<float>(std::log(2.0));
  const std::vector<float> logits = {0, -1 * log2, -2 * log2, -3 * log2, -3 * log2};
  EXPECT_EQ(support(logits, {.temperature = 1, .min_p = 0.2F}), (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(support(logits, {.temperature = 1, .min_p = 1.0F}), (std::set<std::int32_t>{0}));
  EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.6F, .min_p = 0.4F}), (std::set<std::int32_t>{0, 1}));
  EXPECT_EQ(support(logits, {.temperature = 2, .min_p = 0.4F}), (std::set<std::int32_t>{0, 1, 2}));
}

TEST(SampleReference, TheFirstLogitThatIsNotFiniteIsNamed) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const SampleResult result = sample({1, 2, bad, 3, bad}, {.temperature = 1});
    EXPECT_EQ(result.not_finite, 2);
    EXPECT_EQ(result.token, -1);
  }
  const std::uint32_t seen = 0b0010;
  SamplingParams params;
  params.repetition_penalty = 0.5F;
  EXPECT_EQ(sample({1, 0x1p+127F}, params, 0, -1, &seen).not_finite, 1);
}

TEST(SampleReference, LogprobsAreOfTheLogitsAsTheyCame) {
  const std::uint32_t seen = 0b0010;
  SamplingParams params;
  params.repetition_penalty = 100;
  const std::vector<float> logits = {1, 3, 2, 3};
  const SampleResult result = sample(logits, params, 0, 3, &seen);
  EXPECT_EQ(result.token, 3);
  const double normalizer = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  EXPECT_NEAR(result.logprob, 3 - normalizer, 2e-7);
  const std::int32_t expected[] = {1, 3, 2};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(result.top[i].id, expected[i]);
    EXPECT_NEAR(result.top[i].logprob, logits[static_cast<std::size_t>(expected[i])] - normalizer, 2e-7);
  }
  EXPECT_EQ(result.top[3].id, -1);
}

// Against log-sum-exp in long double, over a real vocabulary's worth of tokens.
TEST(SampleReference, LogprobErrorIsThatOfBinary32) {
  for (const std::int64_t vocabulary : {1, 1000, 151'936}) {
    const std::vector<float> logits = testing::rough_logits(7, vocabulary);
    const SampleResult result = sample(logits, {.temperature = 1, .seed = 3}, 0, 1);
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    for (const auto& [id, logprob] : {kernels::TokenLogprob{result.token, result.logprob}, result.top[0]}) {
      const long double exact = static_cast<long double>(logits[static_cast<std::size_t>(id)]) - std::log(sum);
      EXPECT_LE(std::abs(logprob - exact), 2e-7L + 1.5L * 0x1p-23L * std::abs(exact)) << vocabulary << " " << id;
    }
  }
}

// Tokens keep their log-probabilities, bit for bit, when they change places: the normalizer is the same in any order.
TEST(SampleReference, LogprobBitsDoNotDependOnTheOrderOfTheVocabulary) {
  std::vector<float> logits = testing::rough_logits(12, 5000);
  const auto float_total = [&] {  // what an order would do
    float total = 0;
    for (const float logit : logits) total += exp_f32(logit - 16);
    return float_bits(total);
  };
  const SampleResult before = sample(logits, {}, 0, 20);
  const std::uint32_t total_before = float_total();
  std::reverse(logits.begin(), logits.end());
  const SampleResult after = sample(logits, {}, 0, 20);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(after.top[i].id, 4999 - before.top[i].id);
    EXPECT_EQ(float_bits(after.top[i].logprob), float_bits(before.top[i].logprob));
  }
  EXPECT_NE(float_total(), total_before);
}

// Every token and log-probability of a batch of requests.
TEST(SampleReference, BitsAreTheCommittedOnes) {
  constexpr std::int64_t kVocabulary = 1000;
  const std::vector<std::uint32_t> seen = testing::seeded_seen(3, kVocabulary);
  std::vector<float> values;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const std::vector<float> logits = testing::rough_logits(seed, kVocabulary);
    for (const SamplingParams& params : testing::all_params()) {
      const SampleResult result = sample(logits, params, seed, 5, seen.data());
      values.push_back(static_cast<float>(result.token));
      values.push_back(result.logprob);
      for (int i = 0; i < 5; ++i) values.push_back(result.top[i].logprob);
    }
  }
  const auto count = static_cast<std::int64_t>(values.size());
  EXPECT_EQ(sha256_hex({values.data(), 1, count, count}),
            "fa74abd02c2082bc346ddb549c6f81d503ca2a5249a7c6971002578d154effab");
}

}  // namespace
}  // namespace reprofuse
