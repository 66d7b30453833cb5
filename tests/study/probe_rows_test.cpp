#include <gtest/gtest.h>

#include <map>
#include <set>

#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"
#include "support/altered_linear.hpp"

namespace reprofuse::study {
namespace {

TEST(ProbeRows, BatchSizesAreOneToNineAndAroundPowersOfTwo) {
  EXPECT_EQ(batch_sizes(9), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(batch_sizes(32), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32}));
  const auto all = batch_sizes(2049);
  EXPECT_EQ(all.size(), 9U + 3U * 8U);
  EXPECT_EQ(all.back(), 2049);
  EXPECT_EQ(all[all.size() - 3], 2047);
}

TEST(ProbeRows, RowBitsDoNotDependOnBatchSizeOnAnyIsa) {
  ThreadPool pool(2);
  for (const char* numerics : {"fma-1", "exact-1"})
    for (const Isa isa : supported_isas()) {
      const auto found = probe_rows(kernels_of(Context::cpu(numerics, isa, 2)), 257, pool);
      EXPECT_FALSE(found.has_value()) << numerics << " on " << isa_name(isa) << ": " << found->description();
    }
}

TEST(ProbeRows, AnOrderThatDependsOnTheBatchIsCaughtWithItsPlace) {
  ThreadPool pool(2);
  const auto found = probe_rows(altered(Alteration::kOrderDependsOnM), 33, pool);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->weights, DType::kBF16);
  EXPECT_EQ(found->k, 1104);
  EXPECT_EQ(found->m, 16);
  EXPECT_EQ(found->row, 0);
  EXPECT_NE(found->alone, found->in_batch);
}

// Kernels that load 16 bytes at a time and kernels that cannot are different code, so each weight type meets both.
TEST(ProbeRows, EveryWeightTypeHasRowsWithAndWithout16ByteAlignment) {
  ThreadPool pool(1);
  std::map<DType, std::set<bool>> aligned;
  const auto prepare = [&](const WeightView& weight, std::int64_t max_m) {
    aligned[weight.dtype].insert(weight.stride * static_cast<std::int64_t>(dtype_bytes(weight.dtype)) % 16 == 0);
    return altered(Alteration::kNone)(weight, max_m);
  };
  EXPECT_FALSE(probe_rows(prepare, 1, pool).has_value());
  const std::set<bool> both = {false, true};
  EXPECT_EQ(aligned[DType::kBF16], both);
  EXPECT_EQ(aligned[DType::kF16], both);
  EXPECT_EQ(aligned[DType::kF32], (std::set<bool>{true}));
}

// A difference that only rows without alignment show.
TEST(ProbeRows, AnOrderThatDependsOnTheBatchIsCaughtWithoutAlignmentToo) {
  ThreadPool pool(2);
  const auto prepare = [](const WeightView& weight, std::int64_t max_m) {
    return altered(weight.k % 8 == 0 ? Alteration::kNone : Alteration::kOrderDependsOnM)(weight, max_m);
  };
  const auto found = probe_rows(prepare, 17, pool);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->k, 1100);
  EXPECT_EQ(found->m, 16);
}

// A single wrong bit in the 778th row of a large batch: nothing is sampled, every row is compared.
TEST(ProbeRows, OneWrongBitInALargeBatchIsCaught) {
  constexpr std::int64_t kRows = 1025;
  constexpr std::int64_t kN = 6;
  constexpr std::int64_t kK = 3;
  ThreadPool pool(1);
  const Weights weight = make_weights(1, DType::kF32, kN, kK, pool);
  const std::vector<float> x = make_activations(2, kRows, kK);
  AlteredLinear layer(Alteration::kOneValueInBigBatch, weight.view());
  const auto found = find_row_difference(layer, DType::kF32, kN, {x.data(), kRows, kK, kK}, batch_sizes(kRows));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->m, 1023);
  EXPECT_EQ(found->row, 777);
  EXPECT_EQ(found->column, 5);
}

TEST(ProbeRows, ADifferenceIsDescribedWithBothWords) {
  const RowDifference difference{DType::kF16, 1104, 64, 3, 17, 0x3f800000, 0x3f800001};
  EXPECT_EQ(
      difference.description(),
      "f16 weights, K = 1104, M = 64: row 3 column 17 is 0x3f800001, but 0x3f800000 when the row is computed alone");
}

}  // namespace
}  // namespace reprofuse::study
