#include "reprofuse/sampler.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <functional>

#include "kernels/reference/reference.hpp"
#include "reprofuse/error.hpp"
#include "sampler/sample_case.hpp"

namespace reprofuse {
namespace {

constexpr std::int64_t kVocabulary = 1000;

std::string message_of(const std::function<void()>& call, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(Sampler, HistoryIsASetOfIds) {
  const Context context = Context::cpu();
  const std::vector<float> logits = {1, 3, 2.5F, 2};
  SamplingParams params;
  params.repetition_penalty = 2;
  const std::vector<std::int32_t> once = {1, 3}, often = {3, 1, 1, 1, 3};
  EXPECT_EQ(sample(context, logits, params, {}, 0), 1);
  EXPECT_EQ(sample(context, logits, params, once, 0), 2);
  EXPECT_EQ(sample(context, logits, params, often, 0), 2);  // a penalty per id, not per occurrence
  EXPECT_EQ(sample(context, logits, {}, once, 0), 1);
}

TEST(Sampler, SlotsMoveNoToken) {
  for (const std::int64_t vocabulary : {33, 1000})
    testing::expect_that_slots_move_no_token(Context::cpu(), vocabulary, 200);
}

TEST(Sampler, ATokenDoesNotDependOnItsPlaceInTheBatch) {
  constexpr std::int64_t kRows = 33, kStride = kVocabulary + 3;
  std::vector<float> logits(static_cast<std::size_t>(kRows * kStride), NAN);
  std::vector<SampleInput> inputs;
  const std::vector<std::int32_t> history = {5, 6, 999};
  const std::vector<SamplingParams> params = testing::all_params();
  for (std::int64_t i = 0; i < kRows; ++i) {
    const std::vector<float> row = testing::rough_logits(static_cast<std::uint64_t>(i % 5), kVocabulary);
    std::copy(row.begin(), row.end(), logits.begin() + i * kStride);
    inputs.push_back({.params = params[static_cast<std::size_t>(i) % params.size()],
                      .history = history,
                      .position = static_cast<std::uint64_t>(i % 5),
                      .logprobs = 2});
  }
  for (const int threads : {1, 4}) {
    const Context context = Context::cpu(kDefaultNumerics, std::nullopt, threads);
    const Sampler sampler(context, kVocabulary, kRows);
    const auto batch = sampler.run({logits.data(), kRows, kVocabulary, kStride}, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const float* row = logits.data() + static_cast<std::int64_t>(i) * kStride;
      const auto alone = sampler.run({row, 1, kVocabulary, kStride}, {&inputs[i], 1});
      EXPECT_TRUE(testing::equal(alone[0], batch[i])) << i;
    }
  }
}

// A host process may have changed the rounding mode of its thread. The control shows that the probabilities would
// follow it.
TEST(Sampler, NoBitFollowsTheRoundingModeOfTheCaller) {
  constexpr std::int64_t kRows = 20;
  std::vector<float> logits;
  std::vector<SampleInput> inputs;
  const std::vector<std::int32_t> history = {5, 6, 999};
  const std::vector<SamplingParams> params = testing::all_params();
  for (std::uint64_t i = 0; i < kRows; ++i) {
    for (const float logit : testing::rough_logits(i, kVocabulary)) logits.push_back(logit);
    inputs.push_back({.params = params[i], .history = history, .position = i, .logprobs = 20, .logits_root = true});
  }
  const auto unpinned = [&] {
    const kernels::SampleRow row{.logits = logits.data(), .params = {}, .logprobs = 20, .logits_root = true};
    return reference::sample(row, kVocabulary);
  };
  for (const int threads : {1, 3}) {
    const Context context = Context::cpu(kDefaultNumerics, std::nullopt, threads);
    const Sampler sampler(context, kVocabulary, kRows);
    const auto run = [&](std::int64_t rows) {
      return sampler.run({logits.data(), rows, kVocabulary, kVocabulary},
                         std::span(inputs).first(static_cast<std::size_t>(rows)));
    };
    const auto expected = run(kRows);
    const auto expected_unpinned = unpinned();
    for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
      std::fesetround(mode);
      const auto batch = run(kRows), alone = run(1);  // a row to a thread, and threads that share a row
      const int after = std::fegetround();
      const bool follows = !testing::equal(unpinned(), expected_unpinned);
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(after, mode) << "the caller's mode was not given back";
      EXPECT_TRUE(follows) << mode;
      EXPECT_TRUE(testing::equal(alone[0], expected[0])) << mode;
      for (std::size_t i = 0; i < kRows; ++i) EXPECT_TRUE(testing::equal(batch[i], expected[i])) << mode << " " << i;
    }
  }
}

TEST(Sampler, TheSeedAndThePositionDecide) {
  const Context context = Context::cpu();
  const std::vector<float> flat(kVocabulary, 0.0F);
  SamplingParams params;
  params.temperature = 1;
  const std::int32_t first = sample(context, flat, params, {}, 0);
  EXPECT_EQ(sample(context, flat, params, {}, 0), first);
  EXPECT_NE(sample(context, flat, params, {}, 1), first);
  params.seed = 1;
  EXPECT_NE(sample(context, flat, params, {}, 0), first);
  // Position 2^32 is not position 0.
  EXPECT_NE(sample(context, flat, params, {}, 0), sample(context, flat, params, {}, std::uint64_t{1} << 32));
}

TEST(Sampler, ParametersOutsideTheirRangeAreNamed) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    return message_of([&] { check_sampling_params(params); });
  };
  for (const float bad : {-0.5F, INFINITY, NAN})
    EXPECT_NE(message([&](SamplingParams& p) { p.temperature = bad; }).find("temperature ="), std::string::npos);
  EXPECT_NE(message([](SamplingParams& p) { p.top_k = -1; }).find("top_k = -1"), std::string::npos);
  for (const float bad : {-0.1F, 1.1F, NAN}) {
    EXPECT_NE(message([&](SamplingParams& p) { p.top_p = bad; }).find("top_p ="), std::string::npos);
    EXPECT_NE(message([&](SamplingParams& p) { p.min_p = bad; }).find("min_p ="), std::string::npos);
  }
  for (const float bad : {0.0F, -1.0F, INFINITY, NAN})
    EXPECT_NE(message([&](SamplingParams& p) { p.repetition_penalty = bad; }).find("repetition_penalty ="),
              std::string::npos);
  EXPECT_EQ(message([](SamplingParams&) {}), "no error");
}

TEST(Sampler, CallsThatDoNotFitAreRefused) {
  const Context context = Context::cpu();
  const std::vector<float> logits(2 * kVocabulary);
  const Sampler sampler(context, kVocabulary, 1);
  std::vector<SampleInput> inputs(1);
  const auto run = [&](ConstMatrix matrix) { return message_of([&] { sampler.run(matrix, inputs); }); };
  EXPECT_NE(run({logits.data(), 1, 999, 999}).find("[1, 999] where [1, 1000]"), std::string::npos);
  EXPECT_NE(run({nullptr, 1, kVocabulary, kVocabulary}).find("null"), std::string::npos);
  EXPECT_NE(run({logits.data(), 1, kVocabulary, 10}).find("stride of 10"), std::string::npos);
  inputs[0].slot = 1;
  EXPECT_NE(run({logits.data(), 1, kVocabulary, kVocabulary}).find("slot 1 is outside 0 to 0"), std::string::npos);
  inputs[0] = {};
  inputs[0].logprobs = 21;
  EXPECT_NE(run({logits.data(), 1, kVocabulary, kVocabulary}).find("logprobs = 21"), std::string::npos);
  inputs.resize(2);
  EXPECT_NE(run({logits.data(), 2, kVocabulary, kVocabulary}).find("2 rows"), std::string::npos);
  EXPECT_NE(message_of([&] { Sampler(context, sampling::kMaxVocabulary + 1, 1); }).find("4194305"), std::string::npos);
  EXPECT_NE(message_of([&] { Sampler(context, 10, 0); }).find("max_rows = 0"), std::string::npos);
  const std::int32_t outside = 1000;
  SamplingParams params;
  params.repetition_penalty = 2;
  EXPECT_NE(message_of([&] {
              sample(context, {logits.data(), kVocabulary}, params, {&outside, 1}, 0);
            }).find("id 1000"),
            std::string::npos);
}

TEST(Sampler, ALogitThatIsNotFiniteIsAnErrorWithItsPlace) {
  const Context context = Context::cpu();
  std::vector<float> logits(2 * kVocabulary);
  logits[kVocabulary + 77] = NAN;
  const std::vector<SampleInput> inputs(2);
  const Sampler sampler(context, kVocabulary, 2);
  EXPECT_EQ(message_of(
                [&] {
                  sampler.run({logits.data(), 2, kVocabulary, kVocabulary}, inputs);
                },
                ErrorCode::kNonFinite),
            "sampler: row 1: the logit of id 77 is not finite");
}

}  // namespace
}  // namespace reprofuse
