#include "study/ablation/ablate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/reference/reference.hpp"
#include "reprofuse/error.hpp"
#include "study/ablate_support.hpp"
#include "study/ablation/kernels/linear.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {
namespace {

using ablation::Arithmetic;
using ablation::Variant;

// Operands of awkward sizes, the reference's results, and the ablated layer on one instruction set.
class AblatedLayer : public testing::Test {
 protected:
  static constexpr std::int64_t kM = 7, kN = 35, kK = 1604;

  std::vector<float> run(const Variant& variant, Isa isa, int threads = 1) {
    ThreadPool pool(threads);
    const ablation::CpuLinear layer(weights_.view(), isa, pool);
    std::vector<float> y(kM * kN);
    layer.run(variant, {x_.data(), kM, kK, kK}, {y.data(), kM, kN, kN});
    return y;
  }

  std::vector<float> expected() {
    std::vector<float> y(kM * kN);
    reference::linear_fma1({x_.data(), kM, kK, kK}, weights_.view(), nullptr, {y.data(), kM, kN, kN});
    return y;
  }

  ThreadPool pool_{1};
  std::vector<float> x_ = make_activations(1, kM, kK);
  Weights weights_ = make_weights(2, DType::kBF16, kN, kK, pool_);
};

TEST_F(AblatedLayer, WithEveryRuleOnItGivesTheReferencesBitsInEveryTile) {
  for (const Isa isa : supported_isas())
    for (const ablation::Tile tile : {ablation::kPinnedTile, ablation::Tile{8, 16, 16}, ablation::Tile{3, 48, 512}})
      for (const int threads : {1, 3}) {
        const auto difference =
            first_difference(matrix_of(run({.tile = tile}, isa, threads), kM, kN), matrix_of(expected(), kM, kN));
        EXPECT_FALSE(difference) << isa_name(isa) << " " << to_string({.tile = tile}) << ": "
                                 << difference->description();
      }
}

TEST_F(AblatedLayer, EverySwitchMovesBitsAndTheSameOnesOnEveryInstructionSet) {
  const Variant off[] = {{.arithmetic = Arithmetic::kMultiplyThenAdd},
                         {.arithmetic = Arithmetic::kTf32},
                         {.arithmetic = Arithmetic::kTf32x3},
                         {.arithmetic = Arithmetic::kBf16},
                         {.splits = 1},
                         {.splits = 2}};
  std::set<std::vector<float>> outcomes = {expected()};
  for (const Variant& variant : off) {
    const std::vector<float> scalar = run(variant, Isa::kScalar);
    EXPECT_TRUE(outcomes.insert(scalar).second) << "a switch that switches nothing";
    for (const Isa isa : supported_isas()) EXPECT_EQ(run(variant, isa, 2), scalar) << isa_name(isa);
  }
}

TEST_F(AblatedLayer, AtomicAdditionsOfOneThreadAreOrderedAndGiveTheSameSum) {
  EXPECT_EQ(run({.merge = ablation::Merge::kAtomic}, Isa::kScalar, 1), run({}, Isa::kScalar, 1));
  const std::vector<float> raced = run({.merge = ablation::Merge::kAtomic}, Isa::kScalar, 4);
  const std::vector<float> ordered = expected();
  for (std::size_t i = 0; i < raced.size(); ++i) EXPECT_NEAR(raced[i], ordered[i], 1e-4) << i;
}

TEST_F(AblatedLayer, TheNumberOfLanesOfADotProductMovesBits) {
  const ablation::CpuLinear layer(weights_.view(), Isa::kScalar, pool_);
  std::set<std::vector<float>> outcomes;
  for (const int lanes : {1, 4, 8, 16}) {
    std::vector<float> y(kM * kN);
    layer.run_in_lanes(lanes, {x_.data(), kM, kK, kK}, {y.data(), kM, kN, kN});
    outcomes.insert(y);
  }
  EXPECT_EQ(outcomes.size(), 4U);
  EXPECT_TRUE(outcomes.count(run({.splits = 1}, Isa::kScalar))) << "one lane is one chain";
}

TEST_F(AblatedLayer, WhatItCannotDoIsAnError) {
  EXPECT_THROW(run({.tile = {32, 100, 32}}, Isa::kScalar), Error);
  const Weights f32 = make_weights(2, DType::kF32, kN, kK, pool_);
  EXPECT_THROW((ablation::CpuLinear{f32.view(), Isa::kScalar, pool_}), Error);
}

TEST(AblationSplits, AreSegmentsOrTheSameNumberOfTiles) {
  const auto splits_of = [](const Variant& variant, std::int64_t k) {
    const ablation::Splits found = ablation::splits_of(variant, k);
    return std::pair(found.length, found.count);
  };
  EXPECT_EQ(splits_of({}, 1604), std::pair(std::int64_t{512}, std::int64_t{4}));
  EXPECT_EQ(splits_of({.splits = 1}, 1604), std::pair(std::int64_t{1632}, std::int64_t{1}));
  EXPECT_EQ(splits_of({.splits = 4}, 4096), std::pair(std::int64_t{1024}, std::int64_t{4}));
  EXPECT_EQ(splits_of({.tile = {32, 128, 64}, .splits = 3}, 4096), std::pair(std::int64_t{1408}, std::int64_t{3}));
  EXPECT_EQ(splits_of({.tile = {32, 128, 32}, .splits = 3}, 4096), std::pair(std::int64_t{1376}, std::int64_t{3}));
}

TEST(AblationRule, TheWaveSizedSplitIsThatOfThePaper) {
  const auto splits = [](const AblationCase& shape, int multiprocessors) {
    return wave_sized_splits(shape.m, shape.n, ablation::kPinnedTile, multiprocessors);
  };
  const AblationCase qkv = decode_cases()[0];
  EXPECT_EQ(splits(qkv, 108), 2);
  EXPECT_EQ(splits(qkv, 142), 8);
  EXPECT_EQ(splits(qkv, 114), 16);
  int differ = 0;
  for (const AblationCase& shape : decode_cases())
    differ += std::set{splits(shape, 108), splits(shape, 142), splits(shape, 114)}.size() > 1;
  EXPECT_EQ(differ, 4) << "the paper: its output differs across architectures on four of the six shapes";
}

TEST(AblationR1, OursHasTheReferencesBitsAndEveryOtherArithmeticHasOthers) {
  const auto machine = small_machine();
  const Experiment found = ablate_r1(*machine, small_options());
  EXPECT_TRUE(all_claims_hold(std::span(&found, 1)));
  const auto bits = [&](const std::string& arithmetic) {
    return text_of(found, "everything else as in the contract", arithmetic, "bits of the shipped kernel");
  };
  EXPECT_EQ(bits("IEEE FMA"), "3/3");
  EXPECT_EQ(bits("shipped kernel"), "3/3");
  for (const char* other : {"multiply, then add", "TF32", "3xTF32", "BF16"}) EXPECT_EQ(bits(other), "0/3") << other;
  const auto error = [&](const std::string& arithmetic) {
    return std::get<double>(cell_of(found, "everything else as in the contract", arithmetic, "error vs FP64, worst"));
  };
  EXPECT_LT(error("IEEE FMA"), 2e-6);
  EXPECT_LT(error("3xTF32"), 4e-6);
  EXPECT_GT(error("TF32"), 2e-5);
  EXPECT_LT(error("TF32"), 2e-3);
  EXPECT_GT(error("BF16"), error("TF32") * 2);
}

TEST(AblationR2, TheSplitMovesBitsTheTileDoesNotAndNoScheduleOfOursDoes) {
  const auto machine = small_machine();
  const Experiment found = ablate_r2(*machine, small_options());
  EXPECT_TRUE(all_claims_hold(std::span(&found, 1)));
  for (const AblationCase& shape : small_cases())
    EXPECT_EQ(text_of(found, "every schedule of the shipped layer", shape.name, "distinct outputs"), "1");
  EXPECT_EQ(text_of(found, "what the tuner picks", "decode", "candidates"), "72");
  EXPECT_EQ(text_of(found, "what the tuner picks", "decode", "distinct outputs"), "6")
      << "a split of 2 or of 8 leaves tiles over, so each is cut in two ways";
  for (const char* knob : {"B_M", "B_N"}) {
    EXPECT_NE(text_of(found, "differ in one knob", knob, "pairs"), "0");
    EXPECT_EQ(text_of(found, "differ in one knob", knob, "of them with other bits"), "0");
  }
  EXPECT_GT(std::get<std::int64_t>(cell_of(found, "differ in one knob", "B_K", "of them with other bits")), 0);
  EXPECT_GT(std::get<std::int64_t>(cell_of(found, "differ in one knob", "split S", "of them with other bits")), 0);
}

TEST(AblationR3, OrderedMergesGiveOneResultAndEverySplitAnother) {
  const auto machine = small_machine();
  const Experiment found = ablate_r3(*machine, small_options());
  EXPECT_TRUE(all_claims_hold(std::span(&found, 1)));
  EXPECT_EQ(text_of(found, "in 4 runs", "decode", "none"), "1");
  EXPECT_EQ(text_of(found, "in 4 runs", "decode", "ordered"), "1");
  EXPECT_GE(std::get<std::int64_t>(cell_of(found, "in 4 runs", "decode", "atomic")), 1);
  EXPECT_EQ(text_of(found, "swept", "decode", "distinct outputs"), "5");
  EXPECT_EQ(text_of(found, "fills the last wave", "decode", "distinct outputs"), "3");
  EXPECT_EQ(text_of(found, "lanes of a register", "decode", "distinct outputs"), "3");
  EXPECT_EQ(text_of(found, "lanes of a register", "decode", "ours, every instruction set and thread count"), "1");
}

TEST(AblationR4, RowZeroIsOursAtEveryBatchAndNotUnderASplitForTheBatch) {
  const auto machine = small_machine();
  const Experiment found = ablate_r4(*machine, small_options());
  EXPECT_TRUE(all_claims_hold(std::span(&found, 1)));
  EXPECT_EQ(text_of(found, "row 0 differs", "decode", "ours"), "0");
  EXPECT_EQ(text_of(found, "row 0 differs", "decode", "occupancy-sized split"), "2") << "at M = 48 and 64";
  EXPECT_EQ(text_of(found, "across the edge", "65", "ours"), "1/1");
  EXPECT_EQ(text_of(found, "across the edge", "96", "ours"), "1/1");
  EXPECT_EQ(text_of(found, "across the edge", "64", "occupancy-sized split"), "0/1");
}

bool broken(const Experiment& experiment, const std::string& claim) {
  for (const Claim& each : experiment.claims)
    if (each.text.find(claim) != std::string::npos) return !each.held;
  return false;
}

TEST(AblationControl, AShippedLayerOfOtherBitsBreaksTheClaimThatOpensEveryExperiment) {
  AlteredMachine machine([](const Method& method, std::int64_t, std::vector<float>& y) {
    if (std::holds_alternative<Shipped>(method)) y.back() = std::nextafter(y.back(), 2 * y.back());
  });
  for (const auto run : {ablate_r1, ablate_r2, ablate_r3, ablate_r4}) {
    const Experiment found = run(machine, small_options());
    EXPECT_TRUE(broken(found, "with every rule on")) << found.rule;
    EXPECT_FALSE(all_claims_hold(std::span(&found, 1)));
  }
  EXPECT_TRUE(broken(ablate_r1(machine, small_options()), "the bits of the reference loop"));
}

TEST(AblationControl, AScheduleThatMovesABitBreaksR2) {
  AlteredMachine machine([](const Method& method, std::int64_t, std::vector<float>& y) {
    const auto* schedule = std::get_if<ShippedSchedule>(&method);
    if (schedule != nullptr && schedule->index == 1) y.front() = -y.front();
  });
  EXPECT_TRUE(broken(ablate_r2(machine, small_options()), "no schedule"));
  EXPECT_TRUE(broken(ablate_r1(machine, small_options()), "one result on"));
}

TEST(AblationControl, AMergeThatIsNotOrderedBreaksR3) {
  int runs = 0;
  AlteredMachine machine([&](const Method& method, std::int64_t, std::vector<float>& y) {
    if (const auto* variant = std::get_if<Variant>(&method); variant != nullptr && *variant == Variant{})
      y.front() += static_cast<float>(++runs);
  });
  EXPECT_TRUE(broken(ablate_r3(machine, small_options()), "merged in order"));
}

TEST(AblationControl, ARowThatDependsOnItsBatchBreaksR4) {
  AlteredMachine machine([](const Method& method, std::int64_t m, std::vector<float>& y) {
    if (std::holds_alternative<Shipped>(method) && m > 64) y.front() = -y.front();
  });
  const Experiment found = ablate_r4(machine, small_options());
  EXPECT_TRUE(broken(found, "row 0 has the same bits"));
  EXPECT_EQ(text_of(found, "row 0 differs", "decode", "ours"), "0");
  EXPECT_EQ(text_of(found, "across the edge", "65", "ours"), "0/1");
}

}  // namespace
}  // namespace reprofuse::study
