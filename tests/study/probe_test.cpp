#include "study/probe/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "reprofuse/error.hpp"
#include "study/altered_exact.hpp"
#include "support/altered_linear.hpp"

namespace reprofuse::study {
namespace {

// Shaped like decode-bf16, with fewer columns so that plain loops are quick.
const ProbeCase kSmallDecode{"small-decode", 8, 48, 3072, DType::kBF16, true, 900};

const Numerics& fma1() {
  return find_contract("fma-1");
}

const Numerics& exact() {
  return find_contract("exact-1");
}

Golden built_in(const Numerics& contract = fma1()) {
  return parse_golden(golden_file(contract.linear->name), "built-in");
}

Golden golden_of(const ProbeCase& spec, ThreadPool& pool) {
  const Golden empty{"fma-1", {}};
  return {"fma-1", {{spec, probe_case(fma1(), empty, reference_of(fma1(), pool), spec, false, pool).sha256}}};
}

const ProbeCase& find_case(const std::vector<ProbeCase>& cases, std::string_view name) {
  return *std::find_if(cases.begin(), cases.end(), [&](const ProbeCase& spec) { return spec.name == name; });
}

TEST(Probe, EveryCaseHasItsOwnNameSeedAndGoldenDigests) {
  std::set<std::string> names;
  std::set<std::uint64_t> seeds;
  std::set<std::string> digests;
  for (const Numerics* contract : {&fma1(), &exact()}) {
    const Golden golden = built_in(*contract);
    EXPECT_EQ(golden.contract, contract->name);
    EXPECT_EQ(golden.cases.size(), 16U);
    for (const ProbeCase& spec : all_probe_cases()) {
      const GoldenCase* known = golden.find(spec.name);
      ASSERT_NE(known, nullptr) << spec.name;
      EXPECT_EQ(known->spec, spec) << spec.name;
      EXPECT_EQ(known->sha256.size(), 64U) << spec.name;
      names.insert(spec.name);
      seeds.insert(spec.seed);
      digests.insert(known->sha256);
    }
  }
  EXPECT_EQ(names.size(), 16U);
  EXPECT_EQ(seeds.size(), 16U);
  EXPECT_EQ(digests.size(), 32U) << "two contracts share a digest";
}

TEST(Probe, TheReferenceGivesTheGoldenDigests) {
  ThreadPool pool(2);
  const auto cases = all_probe_cases();
  for (const Numerics* contract : {&fma1(), &exact()})
    for (const char* name : {"decode-bf16", "decode-f16", "decode-f32", "ragged-bf16", "ragged-probe"}) {
      const auto result = probe_case(*contract, built_in(*contract), reference_of(*contract, pool),
                                     find_case(cases, name), false, pool);
      EXPECT_EQ(result.verdict, GoldenVerdict::kMatches) << contract->name << " " << name << ": " << result.explanation;
    }
}

TEST(Probe, EveryIsaGivesTheGoldenDigestsAtAnyThreadCount) {
  ThreadPool pool(2);
  for (const Numerics* contract : {&fma1(), &exact()})
    for (const Isa isa : supported_isas())
      for (const int threads : {1, 3})
        for (const ProbeCase& spec : quick_probe_cases()) {
          const Context context = Context::cpu(contract->name, isa, threads);
          const auto result = probe_case(*contract, built_in(*contract), kernels_of(context), spec, true, pool);
          EXPECT_EQ(result.verdict, GoldenVerdict::kMatches) << spec.name << ": " << result.explanation;
          EXPECT_TRUE(result.implementation.starts_with(isa_name(isa))) << result.implementation;
        }
}

class ProbeNegativeControl : public testing::TestWithParam<Alteration> {};

TEST_P(ProbeNegativeControl, AnAlteredOrderMissesTheGoldenDigest) {
  ThreadPool pool(2);
  const ProbeCase ragged = find_case(all_probe_cases(), "ragged-bf16");
  const auto committed = probe_case(fma1(), built_in(), altered(GetParam()), ragged, true, pool);
  EXPECT_EQ(committed.verdict, GoldenVerdict::kDiffers);
  EXPECT_NE(committed.explanation.find("values differ, the first at row "), std::string::npos) << committed.explanation;

  const auto decode = probe_case(fma1(), golden_of(kSmallDecode, pool), altered(GetParam()), kSmallDecode, true, pool);
  EXPECT_EQ(decode.verdict, GoldenVerdict::kDiffers);
}

INSTANTIATE_TEST_SUITE_P(Orders, ProbeNegativeControl,
                         testing::Values(Alteration::kFoldDescending, Alteration::kUnfused, Alteration::kHalfSegments));

class ProbeExactNegativeControl : public testing::TestWithParam<ExactAlteration> {};

TEST_P(ProbeExactNegativeControl, AnAlteredContractMissesTheGoldenDigest) {
  ThreadPool pool(2);
  const ProbeCase ragged = find_case(all_probe_cases(), "ragged-bf16");
  const auto result = probe_case(exact(), built_in(exact()), altered(GetParam()), ragged, true, pool);
  EXPECT_EQ(result.verdict, GoldenVerdict::kDiffers);
  EXPECT_NE(result.explanation.find("values differ, the first at row "), std::string::npos) << result.explanation;
}

INSTANTIATE_TEST_SUITE_P(Contracts, ProbeExactNegativeControl,
                         testing::Values(ExactAlteration::kNineProducts, ExactAlteration::kNegativeBytes,
                                         ExactAlteration::kTwoParts));

// Without this the controls above would also pass on loops that are wrong in some other way.
TEST(Probe, TheUnalteredControlMatches) {
  ThreadPool pool(2);
  const ProbeCase ragged = find_case(all_probe_cases(), "ragged-bf16");
  EXPECT_EQ(probe_case(fma1(), built_in(), altered(Alteration::kNone), ragged, false, pool).verdict,
            GoldenVerdict::kMatches);
  EXPECT_EQ(probe_case(exact(), built_in(exact()), altered(ExactAlteration::kNone), ragged, false, pool).verdict,
            GoldenVerdict::kMatches);
  EXPECT_EQ(
      probe_case(fma1(), golden_of(kSmallDecode, pool), altered(Alteration::kNone), kSmallDecode, false, pool).verdict,
      GoldenVerdict::kMatches);
}

TEST(Probe, AWrongGoldenDigestIsToldFromWrongBits) {
  ThreadPool pool(2);
  Golden golden = golden_of(kSmallDecode, pool);
  golden.cases[0].sha256.back() = golden.cases[0].sha256.back() == '0' ? '1' : '0';
  const auto result = probe_case(fma1(), golden, reference_of(fma1(), pool), kSmallDecode, true, pool);
  EXPECT_EQ(result.verdict, GoldenVerdict::kDiffers);
  EXPECT_NE(result.explanation.find("it is the golden digest that is wrong"), std::string::npos) << result.explanation;
}

TEST(Probe, ACaseThatGoldenLacksOrHasWithOtherOperandsDoesNotMatch) {
  ThreadPool pool(2);
  const auto verdict_with = [&](const Golden& golden) {
    return probe_case(fma1(), golden, reference_of(fma1(), pool), kSmallDecode, true, pool).verdict;
  };
  EXPECT_EQ(verdict_with({"fma-1", {}}), GoldenVerdict::kMissing);
  Golden other_seed = golden_of(kSmallDecode, pool);
  ++other_seed.cases[0].spec.seed;
  EXPECT_EQ(verdict_with(other_seed), GoldenVerdict::kOtherOperands);
}

TEST(Probe, TheReportNamesTheFirstFailureAndTheBatchDependentRow) {
  ThreadPool pool(2);
  const ProbeOptions options{.cases = {kSmallDecode}, .max_batch = 17, .explain = true};
  const Golden golden = golden_of(kSmallDecode, pool);
  const auto good = run_probe(fma1(), golden, altered(Alteration::kNone), options, pool);
  EXPECT_TRUE(good.matches_golden());
  EXPECT_TRUE(good.row_invariant());
  EXPECT_EQ(good.first_failure(), "");

  // At 8 rows this order is the contract's, so only the batches of 16 and 17 give it away.
  const auto moved = run_probe(fma1(), golden, altered(Alteration::kOrderDependsOnM), options, pool);
  EXPECT_TRUE(moved.matches_golden());
  EXPECT_FALSE(moved.row_invariant());
  EXPECT_NE(moved.first_failure().find("bf16 weights, K = 1104, M = 16: row 0 column "), std::string::npos)
      << moved.first_failure();

  const auto wrong = run_probe(fma1(), golden, altered(Alteration::kHalfSegments), options, pool);
  EXPECT_FALSE(wrong.matches_golden());
  EXPECT_EQ(wrong.first_failure().find("small-decode does not match: digest "), 0U) << wrong.first_failure();
}

TEST(Probe, GoldenOfAnotherContractIsRefused) {
  ThreadPool pool(1);
  const ProbeOptions options{.cases = {kSmallDecode}, .max_batch = 1};
  EXPECT_THROW(run_probe(fma1(), {"other-1", {}}, altered(Alteration::kNone), options, pool), Error);
}

TEST(ProbeCases, PatternsSelectInOrderAndMustMatchSomething) {
  const auto cases = all_probe_cases();
  const std::vector<std::string> patterns = {"ragged-*", "decode-f16"};
  const auto selected = select_cases(cases, patterns);
  ASSERT_EQ(selected.size(), 3U);
  EXPECT_EQ(selected[0].name, "decode-f16");
  EXPECT_EQ(selected[1].name, "ragged-bf16");
  EXPECT_EQ(selected[2].name, "ragged-probe");
  const std::vector<std::string> nothing = {"decode-f16", "encode-*"};
  EXPECT_THROW(select_cases(cases, nothing), Error);
}

}  // namespace
}  // namespace reprofuse::study
