// A whole model on CUDA has the bits it has on the CPU, however it is computed. Skipped without a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/kv_cache.hpp"
#include "ops/contract.hpp"
#include "reprofuse/error.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/models.hpp"
#include "study/trace/trace.hpp"
#include "support/expected_digest.hpp"

namespace reprofuse::study {
namespace {

class ModelCuda : public testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    try {
      context_ = Context::cuda();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::optional<Context> context_;
};

TEST_P(ModelCuda, LogitsHaveTheBitsOfTheCpu) {
  const ModelCase& spec = GetParam();
  const std::string expected = logits_digest(*make_model(Context::cpu(), spec), spec, {});
  const auto model = make_model(*context_, spec);
  for (const std::int64_t chunk : {512, 1, 7, 64, 65})
    EXPECT_EQ(logits_digest(*model, spec, {.chunk = chunk}), expected) << "chunks of " << chunk;
  for (const std::int32_t page_size : {16, 256})
    EXPECT_EQ(logits_digest(*model, spec, {.chunk = 33, .page_size = page_size}), expected) << "pages of " << page_size;
  for (const int companions : {1, 2, 7, 32})
    EXPECT_EQ(logits_digest(*model, spec, {.chunk = 9, .page_size = 32, .companions = companions}), expected)
        << companions << " other texts";
  for (const int companions : {1, 7, 32})
    EXPECT_EQ(logits_digest(*model, spec, {.chunk = 1, .companions = companions, .companions_decode = true}), expected)
        << "decode graphs beside " << companions << " other texts";
}

// A text that outgrows the bounds of two decode graphs.
TEST_P(ModelCuda, ALongTextCrossesTheBoundsOfItsGraphs) {
  ModelCase spec = GetParam();
  spec.tokens = 1100;
  const std::string expected = logits_digest(*make_model(Context::cpu(), spec), spec, {});
  EXPECT_EQ(logits_digest(*make_model(*context_, spec), spec, {.chunk = 1}), expected);
}

TEST_P(ModelCuda, EveryContractGivesItsCommittedDigest) {
  const ModelCase& spec = GetParam();
  for (const Numerics& contract : contracts()) {
    const std::string expected = expected_digest(contract, spec);
    const auto model = make_model(Context::cuda(contract.name), spec);
    for (const std::int64_t chunk : {512, 1, 65})
      EXPECT_EQ(logits_digest(*model, spec, {.chunk = chunk}), expected) << contract.name << ", chunks of " << chunk;
    EXPECT_EQ(logits_digest(*model, spec, {.chunk = 9, .page_size = 32, .companions = 7}), expected) << contract.name;
  }
}

// Results of ops, and what the cache has of positions in two of its pages.
TEST_P(ModelCuda, EveryOpLeavesTheBitsOfTheCpu) {
  const ModelCase& spec = GetParam();
  const std::vector<std::int32_t> tokens = case_tokens(spec);
  const std::int64_t page = model::kDefaultPageSize, last = std::ssize(tokens) - 1;
  ASSERT_GT(last, page);
  const TraceRequest request{.prompt = {tokens.begin(), tokens.end() - 1},
                             .answer = {tokens.back()},
                             .positions = {0, 5, page - 1, page, last}};
  for (const Numerics& contract : contracts()) {
    const Trace expected = make_trace(*make_model(Context::cpu(contract.name), spec), request);
    const Trace trace = make_trace(*make_model(Context::cuda(contract.name), spec), request);
    const Comparison comparison = compare_traces(expected, trace);
    EXPECT_FALSE(comparison.first) << contract.name << ": " << comparison.first->op;
    EXPECT_EQ(comparison.equal, std::ssize(request.positions)) << contract.name;

    // By other linear layers, so that it is a digest that differs, and not a type.
    const std::string_view other = contract.linear == contracts().front().linear ? "exact-1" : "fma-1";
    const auto control = compare_traces(make_trace(*make_model(Context::cpu(other), spec), request), trace).first;
    ASSERT_TRUE(control) << other << " leaves the bits of " << contract.name << ": this test could not fail";
    EXPECT_EQ(control->other, "") << other << " and " << contract.name << ": no digests were compared";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelCuda, testing::ValuesIn(model_cases()), [](const auto& param_info) {
  std::string name = param_info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace reprofuse::study
