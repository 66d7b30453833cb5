// No schedule moves a bit of any answer: `reprofuse stress`, small enough for every run of the tests.
#include "study/stress.hpp"

#include <gtest/gtest.h>

#include "engine/engine_case.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kRequests = 16;
constexpr std::int64_t kVocabulary = 1024;

std::vector<engine::Request> requests() {
  return stress_requests(1, kRequests, kVocabulary, engine::bundled_tokenizer().has_value());
}

StressOutcome outcome(const Context& context, std::int64_t schedule, const std::vector<engine::Request>& asked) {
  const auto model = model::bundled_model(context);
  return run_stress(*model, asked, stress_schedule(1, schedule), engine::bundled_tokenizer());
}

TEST(Stress, NoScheduleMovesABitOfAnyAnswer) {
  for (const auto& [numerics, schedules] : {std::pair("fma-1", 5), std::pair("exact-1", 2), std::pair("exact-2", 2)}) {
    const StressOutcome alone = outcome(Context::cpu(numerics), 0, requests());
    if (engine::bundled_tokenizer()) {
      EXPECT_EQ(combined_digest(alone.digests), golden_stress_digest(numerics, 1, kRequests)) << numerics;
    }
    std::int64_t preemptions = 0, cached = 0, accepted = 0;
    for (std::int64_t i = 1; i <= schedules; ++i) {
      const Context context = Context::cpu(numerics, {}, stress_schedule(1, i).threads);
      const StressOutcome together = outcome(context, i, requests());
      EXPECT_EQ(together.digests, alone.digests) << numerics << " schedule " << i;
      preemptions += together.stats.preemptions;
      cached += together.stats.cached_prompt_tokens;
      accepted += together.stats.accepted_tokens;
      EXPECT_EQ(together.stats.pages_in_use, 0);
    }
    EXPECT_GT(preemptions, 0) << "the schedules are too tame";
    EXPECT_GT(cached, 0);
    EXPECT_GT(accepted, 0);
  }
}

TEST(Stress, AGpuGivesTheAnswersOfTheCpuUnderAnySchedule) {
  for (const char* numerics : {"fma-1", "exact-1", "exact-2", "int16-1"}) {
    std::optional<Context> gpu;
    try {
      gpu = Context::cuda(numerics);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    const ModelCase spec = model_cases().front();
    const auto asked = stress_requests(1, kRequests, spec.config.vocab_size, false);
    const auto answers = [&](const Context& context, std::int64_t schedule) {
      const model::Model model(context, std::make_shared<RandomSource>(spec.config, spec.dtype, spec.seed), 512);
      return run_stress(model, asked, stress_schedule(1, schedule), std::nullopt).digests;
    };
    const std::vector<std::string> expected = answers(Context::cpu(numerics), 0);
    for (std::int64_t i = 0; i <= 8; ++i) EXPECT_EQ(answers(*gpu, i), expected) << numerics << " schedule " << i;
  }
}

// The negative control: numerics whose bits depend on the batch are caught, and so is any change of a request.
TEST(Stress, ABaselineThatDependsOnTheBatchIsCaught) {
  std::optional<Context> baseline;
  try {
    baseline = Context::cpu("sgemm", {}, 1);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const StressOutcome alone = outcome(*baseline, 0, requests());
  std::int64_t moved = 0;
  for (std::int64_t i = 1; i <= 2; ++i) {
    const StressOutcome together = outcome(*baseline, i, requests());
    for (std::size_t k = 0; k < alone.digests.size(); ++k) moved += alone.digests[k] != together.digests[k] ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
}

TEST(Stress, AnotherSeedOfOneRequestMovesItsDigestAlone) {
  std::vector<engine::Request> asked = requests();
  const StressOutcome before = outcome(Context::cpu(), 1, asked);
  std::size_t changed = 0;
  while (asked[changed].sampling.temperature == 0.0F || asked[changed].max_tokens < 8) ++changed;
  asked[changed].sampling.seed += 1000;
  const StressOutcome after = outcome(Context::cpu(), 1, asked);
  for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(before.digests[i] != after.digests[i], i == changed) << i;
}

}  // namespace
}  // namespace reprofuse::study
