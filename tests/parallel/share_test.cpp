// How a model is cut: every output belongs to one rank, and what cannot be cut says so.
#include <gtest/gtest.h>

#include "model/team.hpp"
#include "study/seeded/models.hpp"
#include "support/messages.hpp"

namespace reprofuse::model {
namespace {

TEST(Share, RangesAreEvenAndInOrder) {
  EXPECT_EQ(range_of(10, 0, 4), (Range{0, 3}));
  EXPECT_EQ(range_of(10, 1, 4), (Range{3, 3}));
  EXPECT_EQ(range_of(10, 2, 4), (Range{6, 2}));
  EXPECT_EQ(range_of(10, 3, 4), (Range{8, 2}));
  EXPECT_EQ(range_of(2, 2, 3), (Range{2, 0}));
}

TEST(Share, EveryOutputBelongsToOneRankAndEveryHeadFindsItsKeys) {
  for (const study::ModelCase& spec : study::model_cases()) {
    const auto& config = spec.config;
    const std::int64_t group = config.heads / config.kv_heads;
    for (int ranks = 1; ranks <= config.heads; ++ranks) {
      Share before;
      for (const Share& share : shares_of(config, ranks)) {
        EXPECT_EQ(share.heads.first, before.heads.end());
        EXPECT_EQ(share.hidden.first, before.hidden.end());
        EXPECT_EQ(share.intermediate.first, before.intermediate.end());
        EXPECT_EQ(share.vocabulary.first, before.vocabulary.end());
        EXPECT_GE(share.heads.count, 1);
        EXPECT_EQ(share.heads.count % share.kv_heads.count, 0);
        const std::int64_t own_group = share.heads.count / share.kv_heads.count;
        for (std::int64_t head = 0; head < share.heads.count; ++head)
          EXPECT_EQ(share.kv_heads.first + head / own_group, (share.heads.first + head) / group)
              << spec.name << " over " << ranks;
        before = share;
      }
      EXPECT_EQ(before.heads.end(), config.heads);
      EXPECT_EQ(before.hidden.end(), config.hidden_size);
      EXPECT_EQ(before.intermediate.end(), config.intermediate_size);
      EXPECT_EQ(before.vocabulary.end(), config.vocab_size);
    }
  }
}

TEST(Share, TooManyRanksAreRefusedWithThoseThatArePossible) {
  const auto config = study::small_config(checkpoint::Architecture::kLlama);
  EXPECT_EQ(error_of([&] { shares_of(config, 7); }),
            "a model of 6 heads cannot be split over 7 ranks; 1 to 6 are possible");
  EXPECT_EQ(shares_of(config, 6).size(), 6U);
}

}  // namespace
}  // namespace reprofuse::model
