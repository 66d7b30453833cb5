// The sampler: exact cases, the C ABI against the C++ API, and misuse.
#include <algorithm>
#include <cmath>
#include <limits>

#include "capi/support.hpp"

namespace reprofuse::capi {
namespace {

TEST(SamplerApi, TheMostLikelyTokenAndItsLogProbability) {
  const std::vector<float> logits = {1, 3, 3, -2};
  const Context context = Context::cpu();
  EXPECT_EQ(sample(context, logits, {}, {}, 0), 1) << "the first of equals";
  reprofuse_context* c_context = nullptr;
  reprofuse_sampler* sampler = nullptr;
  reprofuse_sample row;
  ASSERT_EQ(reprofuse_context_create(nullptr, &c_context), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_sampler_create(c_context, 4, 1, &sampler), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_sample_init(&row, sizeof row), REPROFUSE_OK);
  row.logprobs = 2;
  ASSERT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, &row, 1, nullptr), REPROFUSE_OK) << reprofuse_last_error();
  EXPECT_EQ(row.token, 1);
  EXPECT_EQ(row.rank, 1);
  EXPECT_NEAR(row.logprob, 3 - std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(row.top[1].id, 2);
  const std::int32_t seen[] = {1, 2};
  row.history = seen;
  row.history_count = 2;
  row.sampling.repetition_penalty = 10;
  ASSERT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, &row, 1, nullptr), REPROFUSE_OK);
  EXPECT_EQ(row.token, 0);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    reprofuse_sample drawn;
    ASSERT_EQ(reprofuse_sample_init(&drawn, sizeof drawn), REPROFUSE_OK);
    drawn.sampling.temperature = 2;
    drawn.sampling.seed = seed;
    drawn.position = 5;
    ASSERT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, &drawn, 1, nullptr), REPROFUSE_OK);
    EXPECT_EQ(drawn.token, sample(context, logits, {.temperature = 2, .seed = seed}, {}, 5));
  }
  reprofuse_sample rooted;
  ASSERT_EQ(reprofuse_sample_init(&rooted, sizeof rooted), REPROFUSE_OK);
  for (const bool tell : {false, true}) {
    rooted.tell_logits_root = tell ? 1 : 0;
    rooted.slot = tell ? 1 : 0;
    ASSERT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, &rooted, 1, nullptr), REPROFUSE_OK);
    const SampleInput input = {.logits_root = tell};
    const SampleResult same = Sampler(context, 4, 1).run({logits.data(), 1, 4, 4}, {&input, 1})[0];
    EXPECT_TRUE(std::ranges::equal(rooted.logits_root, same.logits_root));
    EXPECT_EQ(std::ranges::any_of(rooted.logits_root, [](int byte) { return byte != 0; }), tell);
  }
  for (const std::int32_t slot : {-1, 2}) {  // there is one
    rooted.slot = slot;
    EXPECT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, &rooted, 1, nullptr), REPROFUSE_INVALID_ARGUMENT);
  }
  const std::vector<float> broken = {1, std::numeric_limits<float>::infinity(), 0, 0};
  EXPECT_NE(
      error_text(reprofuse_sampler_run(sampler, broken.data(), 4, &row, 1, nullptr), REPROFUSE_NON_FINITE).find("id 1"),
      std::string::npos);
  EXPECT_EQ(reprofuse_sampler_run(sampler, nullptr, 4, &row, 1, nullptr), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(reprofuse_sampler_run(nullptr, logits.data(), 4, &row, 1, nullptr), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_sample rows[2];  // an array: elements are as far apart as their size says
  for (reprofuse_sample& each : rows) ASSERT_EQ(reprofuse_sample_init(&each, sizeof each), REPROFUSE_OK);
  rows[1].struct_size = sizeof row - 8;
  EXPECT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, rows, 2, nullptr), REPROFUSE_INVALID_ARGUMENT);
  struct {
    reprofuse_sample known;
    std::int64_t added;
  } newer[2];  // of a program that is newer than the library
  reprofuse_sampler* two = nullptr;
  ASSERT_EQ(reprofuse_sampler_create(c_context, 2, 2, &two), REPROFUSE_OK);
  for (auto& each : newer) ASSERT_EQ(reprofuse_sample_init(&each.known, sizeof each), REPROFUSE_OK);
  ASSERT_EQ(reprofuse_sampler_run(two, logits.data(), 2, &newer[0].known, 2, nullptr), REPROFUSE_OK)
      << reprofuse_last_error();
  EXPECT_EQ(newer[0].known.token, 1);
  EXPECT_EQ(newer[1].known.token, 0);
  newer[1].added = 1;
  EXPECT_NE(
      error_text(reprofuse_sampler_run(two, logits.data(), 2, &newer[0].known, 2, nullptr), REPROFUSE_INVALID_ARGUMENT)
          .find("must be zero"),
      std::string::npos);
  reprofuse_sampler_destroy(two);
  row.struct_version = 0;
  EXPECT_EQ(reprofuse_sampler_run(sampler, logits.data(), 4, &row, 1, nullptr), REPROFUSE_INVALID_ARGUMENT);
  reprofuse_sampler_destroy(sampler);
  EXPECT_EQ(reprofuse_sampler_create(c_context, 0, 1, &sampler), REPROFUSE_INVALID_ARGUMENT);
  EXPECT_EQ(sampler, nullptr);
  reprofuse_context_destroy(c_context);
}

}  // namespace
}  // namespace reprofuse::capi
