// What a rank does beside computing: its cores, what it has exchanged, and an end in the middle of a pass.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "model/runner.hpp"
#include "ops/contract.hpp"
#include "parallel/communicator.hpp"
#include "parallel/thread_ranks.hpp"
#include "study/seeded/models.hpp"
#include "support/host_backend.hpp"

namespace reprofuse::parallel {
namespace {

CoreSet cores(int first, int count) {
  CoreSet set = {};
  for (int core = first; core < first + count; ++core) set[static_cast<std::size_t>(core / 64)] |= 1ULL << (core % 64);
  return set;
}

std::vector<int> cores_of_ranks(const std::vector<CoreSet>& ranks) {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) found.push_back(cores_of_rank(ranks, rank));
  return found;
}

TEST(Cores, OfAMachineAreDividedByTheRanksThatMayRunThere) {
  EXPECT_EQ(cores_of_ranks({cores(0, 16)}), (std::vector{16}));
  EXPECT_EQ(cores_of_ranks(std::vector(4, cores(0, 16))), (std::vector{4, 4, 4, 4})) << "nobody is bound";
  EXPECT_EQ(cores_of_ranks({cores(0, 8), cores(0, 8), cores(8, 8), cores(8, 8)}), (std::vector{4, 4, 4, 4}))
      << "by socket";
  EXPECT_EQ(cores_of_ranks({cores(0, 8), cores(8, 8)}), (std::vector{8, 8})) << "a socket each, which nobody else has";
  EXPECT_EQ(cores_of_ranks({cores(60, 8), cores(60, 8), cores(60, 8)}), (std::vector{2, 2, 2}));
  EXPECT_EQ(cores_of_ranks({cores(0, 1), cores(1, 1)}), (std::vector{1, 1})) << "by core";
  EXPECT_EQ(cores_of_ranks({cores(0, 12), cores(8, 4)}), (std::vector{10, 2})) << "sets that overlap";
  EXPECT_EQ(cores_of_ranks(std::vector(3, cores(0, 2))), (std::vector{1, 1, 1})) << "more ranks than cores";
  EXPECT_EQ(cores_of_ranks({CoreSet{}}), (std::vector{1})) << "nothing is known";
}

TEST(Cores, OfThisProcessAreThoseOfItsAffinity) {
  const std::vector<CoreSet> alone = {own_cores()};
  EXPECT_EQ(cores_of_rank(alone, 0), available_cores());
}

constexpr std::int64_t kTokens = 6;

// Passes over the tokens 0 to 5, each from the beginning, with logits of the last.
void run_passes(const model::Model& model, int passes) {
  model::KvCache cache(model.context(), model.own_config(), 1);
  model::Runner runner(model, cache, {.rows = kTokens, .sequences = 1, .logit_rows = 1});
  std::vector<std::int32_t> tokens(kTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int pass = 0; pass < passes; ++pass) {
    model::Sequence sequence(cache);
    ASSERT_TRUE(sequence.reserve(kTokens));
    const model::TokenChunk chunk{&sequence, tokens};
    runner.run(std::span(&chunk, 1));
  }
}

// What docs/scale.md says of traffic is what is counted.
TEST(Traffic, IsCountedForEachRankAndKnownToAll) {
  constexpr int kRanks = 3, kPasses = 2;
  const study::ModelCase spec = study::model_cases().front();
  const auto& config = spec.config;
  const auto make_share = [&](const model::TeamPlace& place) {
    return study::make_model(Context::cpu(kDefaultNumerics, {}, 1), spec, place);
  };
  std::vector<model::RankTraffic> before, after;
  with_ranks(kRanks, make_share, [&](const std::shared_ptr<model::Team>& team) {
    const auto model = make_share({team, 0});
    before = team->traffic();
    run_passes(*model, kPasses);
    after = team->traffic();
  });
  ASSERT_EQ(before.size(), std::size_t{kRanks});
  ASSERT_EQ(after.size(), std::size_t{kRanks});
  std::int64_t bytes = 0;
  for (std::size_t rank = 0; rank < after.size(); ++rank) {
    EXPECT_EQ(before[rank].passes, 0);
    EXPECT_EQ(before[rank].gathered_bytes, 0);
    EXPECT_EQ(after[rank].passes, kPasses) << "rank " << rank;
    EXPECT_GT(after[rank].waited_nanoseconds, 0) << "rank " << rank;
    bytes += after[rank].gathered_bytes;
  }
  const std::int64_t layer = config.q_size() + 2 * config.hidden_size + config.intermediate_size;
  const std::int64_t gathered = kTokens * (config.hidden_size + config.layers * layer) * (kRanks - 1);
  const std::int64_t logits = config.vocab_size - model::share_of(config, 0, kRanks).vocabulary.count;
  EXPECT_EQ(bytes, 4 * kPasses * (gathered + logits));
}

// Alone, memory that is missing fails a request. Among ranks it leaves them out of step, which must end the job.
TEST(OutOfMemory, InAPassIsALostRankAmongSeveralAndNothingElseAlone) {
  const study::ModelCase spec = study::model_cases().front();
  const auto make_share = [&](const model::TeamPlace& place) {
    const auto backend = std::make_shared<test::HostBackend>();
    if (!place.team || place.team->leads())
      backend->gather_rows = [](const kernels::GatherRowsCall&) { throw std::bad_alloc(); };
    return study::make_model(make_context(backend, find_contract("fma-1")), spec, place);
  };
  EXPECT_THROW(run_passes(*make_share({}), 1), std::bad_alloc);
  std::string message;
  const auto errors = with_ranks(2, make_share, [&](const std::shared_ptr<model::Team>& team) {
    const auto model = make_share({team, 0});
    try {
      run_passes(*model, 1);
    } catch (const RankFailure& error) {
      message = error.what();
    }
    EXPECT_TRUE(team->communicator().is_broken());
  });
  EXPECT_EQ(message, "rank 0 on a thread: there is not enough memory for a pass");
  EXPECT_EQ(errors[1], "another rank has broken off");
}

}  // namespace
}  // namespace reprofuse::parallel
