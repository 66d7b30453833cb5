// A whole model's logits have the same bits however they are computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/contract.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"
#include "support/expected_digest.hpp"

namespace reprofuse::study {
namespace {

class ModelInvariance : public testing::TestWithParam<ModelCase> {};

std::string digest_on(const Context& context, const ModelCase& spec, const PassPlan& plan = {}) {
  return logits_digest(*make_model(context, spec), spec, plan);
}

TEST_P(ModelInvariance, EveryInstructionSetAndThreadCountGivesTheSameBits) {
  const std::string expected = digest_on(Context::cpu("fma-1", Isa::kScalar, 1), GetParam());
  for (const Isa isa : supported_isas())
    for (const int threads : {1, 2, 5, 16})
      EXPECT_EQ(digest_on(Context::cpu("fma-1", isa, threads), GetParam()), expected)
          << isa_name(isa) << " with " << threads << " threads";
}

TEST_P(ModelInvariance, EveryContractGivesItsCommittedDigestOnEveryInstructionSet) {
  for (const Numerics& contract : contracts()) {
    const std::string expected = expected_digest(contract, GetParam());
    for (const Isa isa : supported_isas())
      EXPECT_EQ(digest_on(Context::cpu(contract.name, isa, 2), GetParam()), expected)
          << contract.name << " on " << isa_name(isa);
  }
}

TEST_P(ModelInvariance, ChunksPagesAndCompanionsMoveNoBit) {
  for (const std::string_view numerics : {"fma-1", "exact-2", "int16-1"}) {  // the kinds of attention
    const auto model = make_model(Context::cpu(numerics), GetParam());
    const std::string expected = logits_digest(*model, GetParam(), {});
    for (const std::int64_t chunk : {1, 7, 64, 65})
      EXPECT_EQ(logits_digest(*model, GetParam(), {.chunk = chunk}), expected);
    for (const std::int32_t page_size : {16, 256})
      EXPECT_EQ(logits_digest(*model, GetParam(), {.chunk = 33, .page_size = page_size}), expected);
    for (const int companions : {1, 2, 32})
      EXPECT_EQ(logits_digest(*model, GetParam(), {.chunk = 9, .page_size = 32, .companions = companions}), expected);
  }
}

// What tests expect while a contract is made, before its digests are committed.
TEST(ExpectedDigest, OfADraftIsWhatItsScalarKernelsGive) {
  const ModelCase spec = model_cases().front();
  Numerics draft = find_contract("exact-2");
  const std::string committed = expected_digest(draft, spec);
  draft.draft = true;
  EXPECT_EQ(expected_digest(draft, spec), committed);
}

// The digest sees everything: another token, another cache format or another weight changes it.
TEST_P(ModelInvariance, AnotherModelTextOrContractHasAnotherDigest) {
  const std::string expected = digest_on(Context::cpu(), GetParam());
  ModelCase shorter = GetParam();
  --shorter.tokens;
  EXPECT_NE(digest_on(Context::cpu(), shorter), expected);
  ModelCase other_weights = GetParam();
  other_weights.seed += 1;
  EXPECT_NE(digest_on(Context::cpu(), other_weights), expected);
  for (const Numerics& contract : contracts())
    EXPECT_EQ(digest_on(Context::cpu(contract.name), GetParam()) == expected, contract.name == kDefaultNumerics)
        << contract.name;
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelInvariance, testing::ValuesIn(model_cases()), [](const auto& param_info) {
  std::string name = param_info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace reprofuse::study
