#include <gtest/gtest.h>

#include "reprofuse/error.hpp"
#include "study/bench/engine.hpp"
#include "study/seeded/models.hpp"

namespace reprofuse::study {
namespace {

std::vector<EngineBenchRow> measure(const EngineBenchOptions& options, std::int64_t vocabulary = 97) {
  checkpoint::ModelConfig config = small_config(checkpoint::Architecture::kLlama);
  config.vocab_size = vocabulary;
  const auto source = std::make_shared<RandomSource>(config, DType::kBF16, 1);
  std::vector<EngineBenchRow> rows;
  bench_engine(*make_engine_bench_model(Context::cpu(kDefaultNumerics, {}, 1), source, options, {}), options,
               {.on_row = [&](const EngineBenchRow& row) { rows.push_back(row); }});
  return rows;
}

TEST(BenchEngine, EveryRequestIsAnsweredInFullAndTheSameAtEveryBatch) {
  // Prompts of several passes each, so that some are read while other answers go on.
  const auto rows = measure({.batches = {1, 5, 3}, .prompt = 40, .tokens = 24, .max_rows = 16});
  ASSERT_EQ(rows.size(), 3U);
  const std::int64_t batches[] = {1, 5, 3};
  const std::int64_t compared[] = {0, 1, 3};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const EngineBenchRow& row = rows[i];
    EXPECT_EQ(row.numerics, "fma-1");
    EXPECT_EQ(row.batch, batches[i]);
    EXPECT_EQ(row.output_tokens, batches[i] * 24);
    EXPECT_EQ(row.compared_answers, compared[i]);
    EXPECT_EQ(row.changed_answers, 0) << "batch " << row.batch;
    EXPECT_GT(row.first_token, 0);
    EXPECT_LT(row.first_token, row.seconds);
    EXPECT_GT(row.prefill_per_second, static_cast<double>(row.batch * 40) / row.seconds);
    ASSERT_TRUE(row.decode) << "batch " << row.batch;
    EXPECT_GT(row.decode->fastest, 0);
    EXPECT_GT(row.decode_per_second, 0);
    ASSERT_TRUE(row.model_step);
    EXPECT_GT(*row.model_step, 0);
    EXPECT_DOUBLE_EQ(*row.outside_model(), 1 - *row.model_step / row.decode->median);
    EXPECT_EQ(row.guessed_tokens, 0);
  }
}

TEST(BenchEngine, SpeculationGuessesAndTheModelAloneIsNoMeasureOfIt) {
  // Of five words, what follows has often been said before.
  const auto rows = measure({.batches = {2}, .prompt = 40, .tokens = 20, .max_rows = 64, .speculation = 4}, 5);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].output_tokens, 2 * 20);
  EXPECT_GT(rows[0].guessed_tokens, 0);
  EXPECT_LE(rows[0].accepted_tokens, rows[0].guessed_tokens);
  EXPECT_FALSE(rows[0].model_step);
  EXPECT_FALSE(rows[0].outside_model());
}

TEST(BenchEngine, AnswersThatEndBeforeTheLastBeginsLeaveNoDecodePass) {
  const auto rows = measure({.batches = {4}, .prompt = 40, .tokens = 1, .max_rows = 16});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].output_tokens, 4);
  EXPECT_FALSE(rows[0].decode);
  EXPECT_FALSE(rows[0].outside_model());
}

TEST(BenchEngine, ChangedAnswersAreCountedAmongTheRequestsOfBoth) {
  const std::vector<Answer> before = {{1, 2}, {3, 4}, {5, 6}};
  const std::vector<Answer> now = {{1, 2}, {3, 5}};
  EXPECT_EQ(count_changed(before, now), 1);
  EXPECT_EQ(count_changed(before, before), 0);
  EXPECT_EQ(count_changed({}, now), 0);
}

TEST(BenchEngine, APassMustHoldARowOfEveryAnswer) {
  EXPECT_THROW(measure({.batches = {4}, .prompt = 4, .tokens = 4, .max_rows = 3}), Error);
}

}  // namespace
}  // namespace reprofuse::study
