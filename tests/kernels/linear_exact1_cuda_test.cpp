// exact-1 on the GPU: every kernel, with K split over any number of CTAs, gives the reference's bits at every shape.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/linear_integer_cuda_case.hpp"
#include "numerics/exact1.hpp"

namespace reprofuse {
namespace {

using test::Case;

constexpr int kMaxKTiles = 192;  // of a CTA's sums

// Where K must be split and the partials of all rows would be too many, rows take several launches. No GPU is needed to
// know.
TEST(LinearExact1Schedule, LongRowsTakeSeveralLaunches) {
  const std::vector<cuda::integer::Kernel> kernels = {test::kernel_of(cuda::integer::SplitK::kWorkspace, kMaxKTiles)};
  cuda::integer::Problem problem{.m = 4000, .k = 28672, .n = {8192}, .vector_loads = false};
  const std::int64_t rows = cuda::integer::rows_at_once(kernels, problem);
  EXPECT_EQ(rows, 500);
  problem.m = rows;
  EXPECT_FALSE(cuda::integer::possible_schedules(kernels, problem).empty());
  problem = {.m = 4000, .k = 24576, .n = {8192}, .vector_loads = false};
  EXPECT_EQ(cuda::integer::rows_at_once(kernels, problem), 4000);  // one CTA holds that many terms
}

TEST(LinearExact1Schedule, ClustersThatDoNotFitTheDeviceAreLeftOut) {
  test::expect_only_clusters_that_fit(kMaxKTiles);
}

class LinearExact1Cuda : public test::IntegerLinearCuda {
 protected:
  LinearExact1Cuda()
      : IntegerLinearCuda(cuda::exact1::contract_kernels(), reference::linear_exact1,
                          [] { return Context::cuda("exact-1"); }) {}
};

TEST_F(LinearExact1Cuda, EveryScheduleHasTheReferenceBitsAtTileEdges) {
  expect_tile_edges_match({1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200});
}

TEST_F(LinearExact1Cuda, EveryScheduleHasTheReferenceBitsAtRaggedShapes) {
  expect_ragged_shapes_match({1, 7, 8, 31, 32, 33, 127, 128, 136, 1032});
}

TEST_F(LinearExact1Cuda, StridedAndUnalignedRowsHaveTheReferenceBits) {
  expect_strided_and_unaligned_rows_match();
}

// More tiles than CTAs: each CTA takes several, with fewer k-tiles in a tile than stages, and with more.
TEST_F(LinearExact1Cuda, CtasThatTakeSeveralTilesHaveTheReferenceBits) {
  for (const std::int64_t k : {136, 1088}) expect_matches_when_made({.m = 300, .n = 2200, .k = k});
}

TEST_F(LinearExact1Cuda, WeightsPreparedInSeveralLaunchesHaveTheReferenceBits) {
  expect_matches_when_made({.m = 65, .n = 900, .k = 24576, .bias = true});  // 7 of 8 tiles fit
}

TEST_F(LinearExact1Cuda, ExtremeRowsHaveTheReferenceBits) {
  expect_extreme_rows_match();
}

// Every digit at its extreme, over as many terms as the contract allows: the sums come closest to the end of 64 bits,
// and those of a digit class to the end of 32.
TEST_F(LinearExact1Cuda, TheLongestRowsOfExtremeDigitsDoNotOverflow) {
  for (const std::int64_t k : {std::int64_t{24576}, std::int64_t{24584}, exact1::kMaxTerms}) {
    Case c{.m = 3, .n = 4, .k = k, .dtype = DType::kF32};
    c.make(pool_);
    const float largest = 8355711.0F;  // 127 * (2^16 + 2^8 + 1)
    for (std::int64_t i = 0; i < k; ++i) {
      c.x[static_cast<std::size_t>(i)] = largest;
      c.x[static_cast<std::size_t>(k + i)] = -largest;
      c.x[static_cast<std::size_t>(2 * k + i)] = i % 2 == 0 ? largest : -8388608.0F + 32768.0F;
      const float weights[] = {0x1.fffffep+0F, -0x1.fffffep+0F, 0x1p0F + 0x1p-8F, -0x1.010101p+0F};
      for (std::int64_t n = 0; n < c.n; ++n)
        std::memcpy(c.w.storage.data() + (n * k + i) * 4, &weights[n], sizeof(float));
    }
    c.send();
    expect_every_schedule_matches(c);
  }
  expect_too_many_terms_are_refused(exact1::kMaxTerms);
}

// The same for kernels of 16-bit weights, and for digits that were prepared: a largest weight of 1 makes -2^-22 the
// integer -1, whose two lower digits are 255 once the offset is added.
TEST_F(LinearExact1Cuda, TheLongestRowsOfExtremeDigitsDoNotOverflowWithShortWeights) {
  for (const auto& [m, k] : {std::pair<std::int64_t, std::int64_t>{2, 24576}, {2, exact1::kMaxTerms}, {66, 24576}}) {
    Case c{.m = m, .n = 2, .k = k};
    c.make(pool_);
    for (std::int64_t i = 0; i < k; ++i) {
      c.x[static_cast<std::size_t>(i)] = 8355711.0F;
      c.x[static_cast<std::size_t>((m - 1) * k + i)] = -8355711.0F;
      store_weight(c.w.storage.data(), c.dtype, i, i == 0 ? 0x3f80 : 0xb480);      // 1, then -2^-22
      store_weight(c.w.storage.data(), c.dtype, k + i, i == 0 ? 0xbf80 : 0xbf7f);  // -1, then what is next to it
    }
    c.send();
    expect_every_schedule_matches(c);
  }
}

TEST_F(LinearExact1Cuda, FusedOutputsHaveTheBitsOfSeparateOnes) {
  for (const std::int64_t m : {1, 6, 40, 150}) expect_fused_outputs_match(m);
}

TEST_F(LinearExact1Cuda, NonFiniteOperandsAndResultsAreErrorsThatNameThePlace) {
  expect_non_finite_operands_to_be_named();
}

TEST_F(LinearExact1Cuda, OtherBitsWouldBeCaught) {
  expect_other_bits_to_be_caught();
}

}  // namespace
}  // namespace reprofuse
