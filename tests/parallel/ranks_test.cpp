// A model over several ranks has the bits that it has on one.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "model/runner.hpp"
#include "ops/contract.hpp"
#include "parallel/thread_ranks.hpp"
#include "reprofuse/linear.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"
#include "study/seeded/models.hpp"
#include "support/altered_source.hpp"
#include "support/expected_digest.hpp"
#include "support/host_backend.hpp"
#include "support/messages.hpp"

namespace reprofuse::parallel {
namespace {

using model::AlteredSource;
using model::TeamPlace;
using study::ModelCase;
using study::PassPlan;

using MakeContext = std::function<Context()>;

std::vector<std::string> digests_of(const MakeContext& make_context, const ModelCase& spec, int ranks,
                                    const std::vector<PassPlan>& plans, const Alter& alter = {}) {
  std::vector<std::string> digests;
  const auto make_share = [&](const TeamPlace& place) { return study::make_model(make_context(), spec, place); };
  const auto errors = with_ranks(
      ranks, make_share,
      [&](const std::shared_ptr<model::Team>& team) {
        const auto model = make_share({team, 0});
        for (const PassPlan& plan : plans) digests.push_back(study::logits_digest(*model, spec, plan));
      },
      alter);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), ""), ranks);
  return digests;
}

MakeContext cpu(std::string_view numerics) {
  return [numerics] { return Context::cpu(numerics, {}, 1); };
}

class Ranks : public testing::TestWithParam<ModelCase> {};

TEST_P(Ranks, EveryContractGivesItsCommittedDigestOnOneToFourRanks) {
  for (const Numerics& contract : contracts()) {
    const std::string expected = study::expected_digest(contract, GetParam());
    for (int ranks = 1; ranks <= 4; ++ranks)
      EXPECT_EQ(digests_of(cpu(contract.name), GetParam(), ranks, {{}}), std::vector{expected})
          << contract.name << " on " << ranks << " ranks";
  }
}

TEST_P(Ranks, ChunksPagesAndCompanionsMoveNoBit) {
  const std::string expected = study::parse_model_golden({}, kDefaultNumerics).at(GetParam().name);
  const std::vector<PassPlan> plans = {
      {.chunk = 1}, {.chunk = 33, .page_size = 16}, {.chunk = 9, .page_size = 32, .companions = 5}};
  EXPECT_EQ(digests_of(cpu(kDefaultNumerics), GetParam(), 3, plans), std::vector(plans.size(), expected));
}

// The negative control: the digest sees the last bit of one value that arrives otherwise on its way between ranks.
TEST_P(Ranks, ABitThatArrivesOtherwiseMovesTheDigest) {
  const std::string expected = study::parse_model_golden({}, kDefaultNumerics).at(GetParam().name);
  const auto hidden = static_cast<std::size_t>(GetParam().config.hidden_size);
  const auto flip = [&](std::span<std::uint32_t> all) {
    if (all.size() % hidden == 0 && all.size() > hidden) all[hidden + 1] ^= 1U;
  };
  EXPECT_NE(digests_of(cpu(kDefaultNumerics), GetParam(), 2, {{}}, flip), std::vector{expected});
}

INSTANTIATE_TEST_SUITE_P(Cases, Ranks, testing::ValuesIn(study::model_cases()), [](const auto& param_info) {
  std::string name = param_info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(RanksOfADevice, MemoryOfItsOwnMovesNoBit) {
  ModelCase spec = study::model_cases().front();
  spec.tokens = 20;
  const auto on_device = [] { return make_context(std::make_shared<test::HostBackend>(), find_contract("fma-1")); };
  const std::string expected = study::logits_digest(*study::make_model(Context::cpu(), spec), spec, {});
  for (int ranks = 1; ranks <= 3; ++ranks)
    EXPECT_EQ(digests_of(on_device, spec, ranks, {{}, {.chunk = 1}}), (std::vector{expected, expected}));
}

// What splits of the other kind would do: partial sums over a part of the inputs each, added in the order of ranks.
TEST(RanksThatSplitSums, HaveOtherBits) {
  constexpr std::int64_t kInputs = 1024, kOutputs = 64;
  const auto values = [](std::uint64_t seed, std::int64_t count) {
    std::vector<float> made;
    for (std::int64_t i = 0; i < count; ++i)
      made.push_back(static_cast<float>(study::random_word(seed, static_cast<std::uint64_t>(i)) % 2001) * 0x1p-10F -
                     1.0F);
    return made;
  };
  const std::vector<float> x = values(1, kInputs), w = values(2, kInputs * kOutputs);
  const Context context = Context::cpu();
  const auto product = [&](std::int64_t first, std::int64_t count) {
    const WeightView part{.data = w.data() + first, .dtype = DType::kF32, .n = kOutputs, .k = count, .stride = kInputs};
    const LinearLayer layer(context, std::span(&part, 1));
    std::vector<float> y(kOutputs);
    const LinearOutput output{{.data = y.data(), .rows = 1, .cols = kOutputs, .stride = kOutputs}};
    layer.run({.data = x.data() + first, .rows = 1, .cols = count, .stride = count}, std::span(&output, 1),
              Workspace(context, layer.workspace_bytes(1)));
    return y;
  };
  const std::vector<float> whole = product(0, kInputs);
  const std::vector<float> left = product(0, 300), right = product(300, kInputs - 300);
  int moved = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) moved += left[i] + right[i] != whole[i] ? 1 : 0;
  EXPECT_GT(moved, 0);
}

// Of one pass over the tokens 0 to 5: what it throws, on any number of ranks.
std::string pass_error(const MakeContext& make_context, const std::shared_ptr<const model::WeightSource>& source,
                       int ranks) {
  std::string message;
  const auto make_share = [&](const TeamPlace& place) {
    return std::make_unique<model::Model>(make_context(), source, 64, Progress{}, place);
  };
  with_ranks(ranks, make_share, [&](const std::shared_ptr<model::Team>& team) {
    constexpr std::int64_t kTokens = 6;
    const auto model = make_share({team, 0});
    model::KvCache cache(model->context(), model->own_config(), 1);
    model::Runner runner(*model, cache, {.rows = kTokens, .sequences = 1, .logit_rows = kTokens});
    model::Sequence sequence(cache);
    EXPECT_TRUE(sequence.reserve(kTokens));
    std::vector<std::int32_t> tokens(kTokens);
    std::iota(tokens.begin(), tokens.end(), 0);
    const model::TokenChunk chunk{&sequence, tokens, model::Logits::kAll};
    message = error_of([&] { runner.run(std::span(&chunk, 1)); });
    EXPECT_EQ(error_of([&] { runner.run(std::span(&chunk, 1)); }), message) << "the ranks have kept step";
  });
  return message;
}

TEST(RanksThatFail, ThrowWhatOneRankThrows) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  using checkpoint::Architecture;
  const struct {
    Architecture architecture;
    const char* tensor;
    std::size_t element;
    const char* message;
  } cases[] = {
      {Architecture::kQwen2, "model.layers.1.self_attn.k_proj.bias", 21,
       "linear 'model.layers.1.self_attn.qkv' output 1 row 0 column 21: the result is not finite"},
      {Architecture::kQwen2, "model.layers.1.self_attn.q_proj.bias", 90,
       "linear 'model.layers.1.self_attn.qkv' output 0 row 0 column 90: the result is not finite"},
      {Architecture::kLlama, "model.layers.2.post_attention_layernorm.weight", 5,
       "linear 'model.layers.2.mlp.gate_up' output 0 row 0 column 0: the result is not finite"},
      {Architecture::kQwen3, "model.layers.0.self_attn.q_norm.weight", 3,
       "attention 'model.layers.0.self_attn' row 0 head 0: a score is not finite"},
      {Architecture::kLlama, "model.norm.weight", 7, "linear 'lm_head' row 0 column 0: the result is not finite"},
  };
  const auto on_device = [] { return make_context(std::make_shared<test::HostBackend>(), find_contract("fma-1")); };
  for (const auto& [architecture, tensor, element, message] : cases) {
    const auto source = std::make_shared<AlteredSource>(
        std::make_shared<study::RandomSource>(study::small_config(architecture), DType::kBF16, 5));
    source->change(tensor, [&, at = element](std::span<float> values) { values[at] = kInfinity; });
    for (int ranks = 1; ranks <= 4; ++ranks) {
      EXPECT_EQ(pass_error(cpu(kDefaultNumerics), source, ranks), message) << ranks << " ranks";
      EXPECT_EQ(pass_error(on_device, source, ranks), message) << ranks << " ranks of a device";
    }
  }
}

TEST(RanksThatDiffer, AreToldApartBeforeAnyWeightIsRead) {
  const ModelCase spec = study::model_cases().front();
  const auto make_share = [&](const TeamPlace& place) {
    return study::make_model(Context::cpu(place.team->leads() ? "fma-1" : "exact-1"), spec, place);
  };
  std::string message;
  with_ranks(3, make_share, [&](const auto& team) { message = error_of([&] { make_share({team, 0}); }); });
  EXPECT_EQ(message,
            "rank 1 on a thread differs from rank 0 in the numerics: 'numerics exact-1', and 'numerics fma-1' "
            "on rank 0");
}

}  // namespace
}  // namespace reprofuse::parallel
