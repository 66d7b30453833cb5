#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/sampler/sample.hpp"
#include "kernels/reference/reference.hpp"
#include "sampler/sample_case.hpp"

namespace reprofuse {
namespace {

using kernels::SampleResult;
using kernels::SampleRow;
using testing::equal;

// One vocabulary with its logits, and every kind of request on it.
struct Rows {
  explicit Rows(std::int64_t size)
      : vocabulary(size),
        logits{testing::seeded_logits(1, size), testing::rough_logits(2, size)},
        seen(testing::seeded_seen(3, size)) {
    const auto size32 = static_cast<std::int32_t>(size);
    for (const std::vector<float>& row : logits)
      for (const SamplingParams& params : testing::all_params()) {
        const bool with_logprobs = rows.size() % 2 == 0;
        rows.push_back({.logits = row.data(),
                        .seen = params.repetition_penalty != 1 ? seen.data() : nullptr,
                        .params = params,
                        .position = rows.size(),
                        .given = rows.size() % 5 == 4 ? static_cast<std::int32_t>(rows.size()) % size32 : -1,
                        .logprobs = with_logprobs ? static_cast<int>(std::min<std::int64_t>(size, 20)) : -1,
                        .logits_root = rows.size() % 3 != 1});
      }
    for (const SampleRow& row : rows) expected.push_back(reference::sample(row, vocabulary));
  }
  std::int64_t vocabulary;
  std::vector<float> logits[2];
  std::vector<std::uint32_t> seen;
  std::vector<SampleRow> rows;
  std::vector<SampleResult> expected;
};

std::vector<SampleResult> run(const std::vector<SampleRow>& rows, std::int64_t vocabulary, Isa isa, int threads) {
  ThreadPool pool(threads);
  std::vector<SampleResult> results(rows.size());
  cpu::sample(rows, vocabulary, isa, pool, results);
  return results;
}

TEST(SampleCpu, EveryInstructionSetAndThreadCountGivesTheReference) {
  for (const std::int64_t vocabulary : {1, 2, 31, 33, 1000, 8192, 20'011}) {
    const Rows cases(vocabulary);
    for (const Isa isa : supported_isas())
      for (const int threads : {1, 3}) {
        const std::vector<SampleResult> results = run(cases.rows, vocabulary, isa, threads);
        for (std::size_t i = 0; i < results.size(); ++i)
          ASSERT_TRUE(equal(results[i], cases.expected[i]))
              << isa_name(isa) << " vocabulary " << vocabulary << " threads " << threads << " case " << i;
      }
  }
}

// With fewer rows than threads the threads share each row.
TEST(SampleCpu, ARowIsTheSameAloneSharedByThreadsAndInABatch) {
  const Rows cases(20'011);
  for (const std::size_t i : {std::size_t{3}, std::size_t{13}, cases.rows.size() - 1})
    for (const int threads : {1, 2, 5, 16}) {
      const std::vector<SampleResult> alone = run({cases.rows[i]}, cases.vocabulary, supported_isas().back(), threads);
      EXPECT_TRUE(equal(alone[0], cases.expected[i])) << i << " " << threads;
    }
}

TEST(SampleCpu, TheForcedInstructionSetIsTheOneThatRuns) {
  for (const Isa isa : supported_isas()) EXPECT_EQ(cpu::sample_kernels(isa).target, isa_name(isa));
}

TEST(SampleCpu, TheFirstLogitThatIsNotFiniteIsNamed) {
  for (const std::int64_t place : {0, 17, 8191, 8192, 20'010})
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> logits = testing::rough_logits(5, 20'011);
      logits[static_cast<std::size_t>(place)] = bad;
      logits.back() = bad;
      SampleRow row;
      row.logits = logits.data();
      for (const Isa isa : supported_isas())
        for (const int threads : {1, 2}) EXPECT_EQ(run({row}, 20'011, isa, threads)[0].not_finite, place);
    }
}

TEST(SampleCpu, RootsOfRowsAreTheReferencesAndSeeEveryBit) {
  for (const std::int64_t vocabulary : testing::kLeafEdges) {
    const auto logits = testing::rows_with_other_roots(vocabulary);
    for (const int threads : {1, 3}) {  // threads share a row; and with one, a row to a thread
      std::set<std::string> roots;
      for (const std::vector<float>& row : logits) {
        const SampleResult result =
            run({{.logits = row.data(), .params = {}, .logits_root = true}}, vocabulary, Isa::kScalar, threads)[0];
        EXPECT_TRUE(std::ranges::equal(result.logits_root, reference::logits_root(row))) << vocabulary;
        roots.emplace(std::begin(result.logits_root), std::end(result.logits_root));
      }
      EXPECT_EQ(roots.size(), logits.size()) << vocabulary;
    }
  }
}

// Equal logits, all of them or a few, in one chunk of the vocabulary and in several: `greedy` is the id to be chosen.
struct Tie {
  std::vector<float> logits;
  std::int32_t greedy;
};

std::vector<Tie> ties() {
  std::vector<Tie> cases = {{{-0.0F}, 0}, {{-200.0F, -0.0F}, 1}};  // the sign of a zero shows in a log-probability of 0
  for (const std::int64_t vocabulary : {2, 33, 20'011}) {
    cases.push_back({std::vector<float>(static_cast<std::size_t>(vocabulary), -2.5F), 0});
    for (const auto& [first, second] : {std::pair{0.0F, 0.0F}, {-0.0F, 0.0F}, {0.0F, -0.0F}, {3.0F, 3.0F}}) {
      cases.push_back({std::vector<float>(static_cast<std::size_t>(vocabulary), -1.0F), 0});
      std::vector<float>& logits = cases.back().logits;
      logits[logits.size() / 3] = first;
      logits[logits.size() / 2] = logits.back() = second;
      cases.back().greedy = static_cast<std::int32_t>(logits.size() / 3);
    }
  }
  return cases;
}

TEST(SampleCpu, GreedyTakesTheLowestIdAmongEqualMaxima) {
  for (const Tie& tie : ties()) {
    const auto vocabulary = static_cast<std::int64_t>(tie.logits.size());
    const SampleRow row{
        .logits = tie.logits.data(), .params = {}, .logprobs = static_cast<int>(std::min<std::int64_t>(vocabulary, 2))};
    const SampleResult expected = reference::sample(row, vocabulary);
    ASSERT_EQ(expected.token, tie.greedy);
    for (const Isa isa : supported_isas())
      for (const int threads : {1, 3}) {
        const SampleResult result = run({row}, vocabulary, isa, threads)[0];
        EXPECT_EQ(result.token, tie.greedy) << isa_name(isa) << " " << vocabulary << " " << threads;
        EXPECT_TRUE(equal(result, expected)) << isa_name(isa) << " " << vocabulary << " " << threads;
      }
  }
}

// Tokens of one weight: n of them reach a share of n / vocabulary exactly, and the nucleus ends with the n-th.
TEST(SampleCpu, ANucleusEndsWhereItsShareIsReachedExactly) {
  for (const std::int64_t vocabulary : {4, 64, 16'384}) {
    const std::vector<float> logits(static_cast<std::size_t>(vocabulary), 1.5F);
    for (const std::int64_t kept : {vocabulary / 4, vocabulary / 2, vocabulary - 1}) {
      const float share = static_cast<float>(kept) / static_cast<float>(vocabulary);
      std::vector<SampleRow> rows;
      for (std::uint64_t position = 0; position < 200; ++position)
        rows.push_back({.logits = logits.data(), .params = {.temperature = 1, .top_p = share}, .position = position});
      // Of tokens that are equally likely, the target is the id that a draw below the count gives.
      for (const Isa isa : supported_isas()) {
        const std::vector<SampleResult> results = run(rows, vocabulary, isa, 2);
        for (std::uint64_t i = 0; i < rows.size(); ++i)
          ASSERT_EQ(results[i].token, sampling::draw_below(static_cast<std::uint64_t>(kept), 0, i))
              << isa_name(isa) << " " << kept << " of " << vocabulary;
      }
    }
  }
}

TEST(SampleCpu, ProbabilitiesHaveTheScalarBitsOnEveryInstructionSet) {
  constexpr std::size_t kCount = 10'007;  // no multiple of a register
  for (const float temperature : {0x1p-149F, 0.3F, 1.0F, 1e30F}) {
    const std::vector<float> logits = testing::rough_logits(9, kCount);
    const float greatest = *std::max_element(logits.begin(), logits.end());
    for (const Isa isa : supported_isas()) {
      std::vector<float> probabilities(kCount);
      cpu::sample_kernels(isa).probabilities(logits.data(), kCount, greatest, temperature, probabilities.data());
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(float_bits(probabilities[i]),
                  float_bits(sampling::unnormalized_probability(logits[i], greatest, temperature)))
            << isa_name(isa) << " temperature " << temperature << " id " << i;
    }
  }
}

// What a sampler with binary32 weights would do: the token depends on the order in which it adds them up.
std::size_t draw_by_float_sums(const std::vector<float>& probabilities, bool ascending, float uniform) {
  float total = 0;
  const std::size_t count = probabilities.size();
  for (std::size_t i = 0; i < count; ++i) total += probabilities[ascending ? i : count - 1 - i];
  const float target = uniform * total;
  float sum = 0;
  for (std::size_t id = 0; id < count; ++id)
    if ((sum += probabilities[id]) > target) return id;
  return count - 1;
}

TEST(SampleCpu, AFloatSumInAnotherOrderChangesATokenAndIntegerWeightsDoNot) {
  std::vector<float> probabilities;
  for (const float logit : testing::rough_logits(6, 4001))
    probabilities.push_back(sampling::unnormalized_probability(logit, 16, 4));
  int changed = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const float uniform = static_cast<float>(philox(8, i, 0) >> 40) * 0x1p-24F;
    changed += draw_by_float_sums(probabilities, true, uniform) != draw_by_float_sums(probabilities, false, uniform);
  }
  EXPECT_GT(changed, 0);

  std::uint64_t ascending = 0, descending = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    ascending += sampling::weight_of(probabilities[i]);
    descending += sampling::weight_of(probabilities[probabilities.size() - 1 - i]);
  }
  EXPECT_EQ(ascending, descending);
}

}  // namespace
}  // namespace reprofuse
