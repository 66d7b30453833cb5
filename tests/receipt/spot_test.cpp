// Single steps of a receipt: what they cost, and what they prove.
#include <algorithm>

#include "base/hash.hpp"
#include "receipt/receipt_case.hpp"
#include "receipt/replay.hpp"
#include "support/messages.hpp"

namespace reprofuse::receipt {
namespace {

using SpotTest = ReceiptTest;

constexpr ReceiptOptions kShowsRoots{.roots = true};

// However many steps are drawn, the text is gone over once.
TEST_F(SpotTest, SpotsCostOnePrefillAndNeverMoreThanTheWhole) {
  const std::string text = issue(sampled_request(), kShowsRoots).text();  // 20 + 24 tokens: one pass of up to 512 rows
  const auto passes = [&](std::size_t spots) {
    Evidence evidence = examine(text, "it", key_.public_key());
    const std::int64_t count = replay_all(*model_, bundled_tokenizer(), {&evidence}, Level::kLogits, spots);
    EXPECT_TRUE(evidence.report.is_open()) << evidence.report.problem;
    const bool is_whole = spots == 0 || spots >= 24;
    EXPECT_EQ(evidence.report.verdict_text(), is_whole ? "equal" : fmt::format("holds at {} of 24 steps", spots));
    EXPECT_EQ(contains(fmt::format("{}", fmt::join(evidence.report.not_proven, " ")), "the other"), !is_whole);
    EXPECT_EQ(contains(fmt::format("{}", fmt::join(evidence.report.proven, " ")), ", ...)"), !is_whole && spots > 10);
    return count;
  };
  const std::int64_t whole = passes(0);
  EXPECT_GE(whole, 1);
  for (const std::size_t spots : {1U, 2U, 11U, 23U}) EXPECT_EQ(passes(spots), 1) << spots;
  for (const std::size_t spots : {24U, 1000U}) EXPECT_EQ(passes(spots), whole) << spots;
}

TEST_F(SpotTest, ASpotOnALieIsCaughtAndOneBesideItIsNot) {
  Receipt lie = parse_statement(issue(sampled_request(), kShowsRoots).payload, "it");
  lie.answer.roots.back()[0] ^= 1;  // of the last step, so that every other is true
  lie.steps_root = to_hex(merkle_root(step_leaves(lie.answer)));
  lie.answer.digest = tree_digest(lie.answer.roots);
  const std::string text = sign(statement_of(lie)).text();
  std::size_t caught = 0;
  for (int i = 0; i < 24; ++i) {
    const Report report = verify(text, Level::kLogits, 23);
    if (report.is_open()) continue;
    EXPECT_TRUE(contains(report.problem, "step 23: the logits are others")) << report.problem;
    ++caught;
  }
  EXPECT_GT(caught, 0U) << "23 of 24 steps, 24 times";
}

// Not the roots beside it prove a step, but its path to the root that was signed.
TEST_F(SpotTest, ASpotIsProvenByItsPathToTheSignedRoot) {
  Evidence evidence = examine(issue(sampled_request(), kShowsRoots).text(), "it", key_.public_key());
  const auto replay = [&](const std::string& steps_root) {
    Evidence copy = evidence;
    copy.claim->steps_root = steps_root;
    replay_all(*model_, bundled_tokenizer(), {&copy}, Level::kLogits, 3);
    return copy.report;
  };
  const Report honest = replay(evidence.claim->steps_root);
  EXPECT_TRUE(contains(honest.proven.back(), "by their paths to the signed root")) << honest.proven.back();
  const Report other = replay(std::string(64, '0'));
  EXPECT_EQ(other.verdict, Verdict::kDiverged);
  EXPECT_TRUE(contains(other.problem, ": its path leads to another root than the steps' 000")) << other.problem;
}

TEST_F(SpotTest, SpotsAreDifferentStepsInOrder) {
  for (const std::size_t count : {1U, 7U, 24U, 100U}) {
    const std::vector<std::size_t> spots = draw_spots(24, count);
    EXPECT_EQ(spots.size(), std::min<std::size_t>(24, count));
    EXPECT_TRUE(std::is_sorted(spots.begin(), spots.end()));
    EXPECT_LT(spots.back(), 24U);
  }
  EXPECT_NE(draw_spots(1'000'000, 20), draw_spots(1'000'000, 20));
}

TEST_F(SpotTest, WhatIsLongerThanTheContextDivergesBeforeAnySpotIsAsked) {
  Evidence evidence;
  Claim& claim = evidence.claim.emplace();
  claim.request.prompt = {1};
  claim.answer.tokens.assign(1 << 14, 1);
  claim.answer.roots.resize(claim.answer.step_count());
  claim.steps_root = to_hex(merkle_root(step_leaves(claim.answer)));
  replay_all(*model_, bundled_tokenizer(), {&evidence}, Level::kLogits, 1000);
  EXPECT_EQ(evidence.report.verdict, Verdict::kDiverged);
  EXPECT_TRUE(contains(evidence.report.problem, "does not fit into a context")) << evidence.report.problem;
}

}  // namespace
}  // namespace reprofuse::receipt
