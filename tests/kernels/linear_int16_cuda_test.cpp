// int16-1 on the GPU: every kernel, with K split over any number of CTAs, gives the reference's bits at every shape.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cuda/linear/int16/params.hpp"
#include "kernels/linear_integer_cuda_case.hpp"
#include "numerics/int16.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {
namespace {

using test::Case;
using test::kDTypes;

constexpr int kMaxKTiles = 1024;

// The linear layers of int16-1 beside attention that every backend has.
constexpr Numerics kLinearAlone{.name = "int16-1, linear layers",
                                .summary = "for these tests",
                                .linear = &reference::kLinearInt16,
                                .attention = &reference::kAttentionFma1,
                                .cache = &reference::kCacheF32,
                                .elementwise = &reference::kElementwiseFma1};

TEST(LinearInt16Schedule, ClustersThatDoNotFitTheDeviceAreLeftOut) {
  test::expect_only_clusters_that_fit(kMaxKTiles);
}

// Kept digits: few rows take narrow tiles, many take wide ones, and K is split where tiles are too few for the device.
TEST(LinearInt16Schedule, KeptDigitsTakeTilesThatFitTheRows) {
  cuda::integer::Kernel narrow = test::kernel_of(cuda::integer::SplitK::kCluster, kMaxKTiles);
  narrow.tile_m = 8;
  narrow.tile_n = 128;
  narrow.takes_digits = narrow.digits_in_place = true;
  narrow.digit_cost = {.k_tile = 0.3, .start = 4, .exchange = 0.3};
  narrow.at_once = {132, 66, 39, 32, 22, 17, 15, 0};
  cuda::integer::Kernel wide = narrow;
  wide.tile_m = 128;
  wide.digit_cost = {.k_tile = 1.3, .start = 10, .exchange = 4.5};
  const std::vector<cuda::integer::Kernel> kernels = {narrow, wide};
  const auto chosen = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return cuda::integer::choose_schedule(test::device_of_132(), kernels,
                                          {.m = m, .k = k, .n = {n}, .vector_loads = false});
  };
  EXPECT_EQ(chosen(1, 16384, 3072).kernel, 0);
  EXPECT_EQ(chosen(1, 16384, 3072).splits, 1);
  EXPECT_GT(chosen(1, 3072, 8192).splits, 1);
  EXPECT_EQ(chosen(2048, 16384, 3072).kernel, 1);
  EXPECT_EQ(chosen(2048, 16384, 3072).splits, 1);
}

// Persistent CTAs gain by their second tile: with one each, those that share K by clusters are as good.
TEST(LinearInt16Schedule, PersistentCtasAreForSeveralTilesEach) {
  cuda::integer::Kernel cluster = test::kernel_of(cuda::integer::SplitK::kCluster, kMaxKTiles);
  cluster.tile_m = 64;
  cluster.tile_n = 128;
  cluster.takes_digits = cluster.digits_in_place = true;
  cluster.digit_cost = {.k_tile = 0.66, .start = 6.7, .exchange = 2.2};
  cluster.at_once = {132, 66, 39, 32, 22, 17, 15, 0};
  cuda::integer::Kernel persistent = cluster;
  persistent.split_k = cuda::integer::SplitK::kNone;
  persistent.digit_cost = {.k_tile = 0.66, .start = 5};
  const auto chosen = [&](std::int64_t n) {
    return cuda::integer::choose_schedule(test::device_of_132(), {cluster, persistent},
                                          {.m = 64, .k = 3072, .n = {n}, .vector_loads = true});
  };
  EXPECT_EQ(chosen(16384).kernel, 0);
  EXPECT_EQ(chosen(16384).splits, 1);
  EXPECT_EQ(chosen(128256).kernel, 1);
}

// A device that has wgmma uses it, whatever the kernels by mma.sync say they take.
TEST(LinearInt16Schedule, ProductsOfAWarpAreForDevicesWithoutOthers) {
  std::vector<cuda::integer::Kernel> kernels = {test::kernel_of(cuda::integer::SplitK::kWorkspace, kMaxKTiles),
                                                test::kernel_of(cuda::integer::SplitK::kNone, kMaxKTiles)};
  const cuda::integer::Problem problem{.m = 64, .k = 3072, .n = {3072}, .vector_loads = false};
  EXPECT_EQ(cuda::integer::choose_schedule(test::device_of_132(), kernels, problem).kernel, 1);
  kernels[1].vector_loads = true;
  EXPECT_EQ(cuda::integer::choose_schedule(test::device_of_132(), kernels, problem).kernel, 0);
}

// Prepared weights share the memory of partials: long rows are prepared some columns at a time, as many in each launch.
TEST(LinearInt16Schedule, WeightsThatDoNotFitArePreparedInSeveralLaunches) {
  EXPECT_EQ(cuda::integer::prepared_at_a_time(128, 3072), 64);  // 85 fit
  EXPECT_EQ(cuda::integer::prepared_at_a_time(40, 3072), 40);
  EXPECT_EQ(cuda::integer::prepared_at_a_time(5, int16::kMaxTerms), 2);
  EXPECT_EQ(cuda::integer::prepared_at_a_time(128, 3072, cuda::integer::prepared_bytes(3, 128)), 43);  // 56 fit
}

class LinearInt16Cuda : public test::IntegerLinearCuda {
 protected:
  LinearInt16Cuda()
      : IntegerLinearCuda(cuda::int16::contract_kernels(), reference::linear_int16, [] {
          return make_context(kernels::open_cuda({.ordinal = 0, .isa = std::nullopt, .threads = 0}), kLinearAlone);
        }) {}
};

TEST_F(LinearInt16Cuda, EveryScheduleHasTheReferenceBitsAtTileEdges) {
  expect_tile_edges_match(
      {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193, 290});
}

TEST_F(LinearInt16Cuda, EveryScheduleHasTheReferenceBitsAtRaggedShapes) {
  expect_ragged_shapes_match({1, 7, 8, 33, 127, 128, 136, 504, 512, 520, 1032, 1544});
}

TEST_F(LinearInt16Cuda, StridedAndUnalignedRowsHaveTheReferenceBits) {
  expect_strided_and_unaligned_rows_match();
}

// Weights that the layer keeps as digits, in place of themselves.
TEST_F(LinearInt16Cuda, KeptDigitsHaveTheReferenceBits) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t m :
         {1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 79, 80, 81, 95, 96, 97, 111, 112, 113, 127, 128, 129, 193, 290})
      expect_matches_when_made({.m = m, .n = 128 + m % 3 * 128, .k = 1152, .dtype = dtype, .bias = m % 2 == 0},
                               WeightUse::kTake);
  for (const std::int64_t k : {128, 256, 512, 640, 1536, 4224})
    for (const std::int64_t m : {1, 32, 64, 80, 96, 112, 128, 300})
      expect_matches_when_made({.m = m, .n = 256, .k = k, .bias = true, .y_padding = 3}, WeightUse::kTake);
  for (const std::int64_t k : {128, 1152}) expect_matches_when_made({.m = 700, .n = 2560, .k = k}, WeightUse::kTake);
}

// One small problem for every kernel, alone and in pairs: what racecheck gets through in seconds.
TEST_F(LinearInt16Cuda, EveryKernelHasTheReferenceBitsOnce) {
  for (const WeightUse use : {WeightUse::kRead, WeightUse::kTake})
    expect_matches_when_made({.m = 70, .n = 128, .k = 1152, .bias = true}, use, 2);
}

// Weights that may be taken, but whose sizes are no whole tiles, stay as they are.
TEST_F(LinearInt16Cuda, WeightsThatCannotBeKeptAsDigitsHaveTheReferenceBits) {
  expect_matches_when_made({.m = 33, .n = 130, .k = 1152}, WeightUse::kTake);
  expect_matches_when_made({.m = 33, .n = 128, .k = 1144}, WeightUse::kTake);
  expect_matches_when_made({.m = 33, .n = 128, .k = 1152, .w_padding = 8}, WeightUse::kTake);
}

// More tiles than CTAs: each CTA takes several, with fewer k-tiles in a tile than stages, and with more.
TEST_F(LinearInt16Cuda, CtasThatTakeSeveralTilesHaveTheReferenceBits) {
  for (const std::int64_t k : {136, 1088}) expect_matches_when_made({.m = 700, .n = 2600, .k = k});
}

TEST_F(LinearInt16Cuda, WeightsPreparedInSeveralLaunchesHaveTheReferenceBits) {
  expect_matches_when_made({.m = 65, .n = 257, .k = int16::kMaxTerms, .bias = true});
}

TEST_F(LinearInt16Cuda, ExtremeRowsHaveTheReferenceBits) {
  expect_extreme_rows_match();
}

// Blocks of very different sizes: within the range of a row's units, at its end, and below it. Kept digits have kernels
// whose warps take turns at the terms of a block.
TEST_F(LinearInt16Cuda, BlocksOfEverySizeHaveTheReferenceBits) {
  const Case cases[] = {{.m = 12, .n = 66, .k = 2104},
                        {.m = 12, .n = 128, .k = 2176},
                        {.m = 1, .n = 128, .k = 2048},
                        {.m = 70, .n = 128, .k = 2048}};
  for (const int apart : {1, 8, 23, 24, 25, 26, 40, 100, 140})
    for (const Case& sizes : cases) {
      Case c{.m = sizes.m, .n = sizes.n, .k = sizes.k};
      c.make(pool_);
      for (std::int64_t m = 0; m < c.m; ++m)
        for (std::int64_t k = 0; k < c.k; ++k)
          if (k / 512 % 2 != m % 2) {
            float& value = c.x[static_cast<std::size_t>(m * c.k + k)];
            value = std::ldexp(value, -apart);
          }
      c.send();
      expect_every_schedule_matches(c, c.n == 128 ? WeightUse::kTake : WeightUse::kRead);
    }
}

// Every digit at its extreme, over as many terms as the contract allows: sums of a block come closest to the end of 32
// bits, and the totals to that of 64. A weight of 32639 in units of 2^-14 is one of 24 bits, so it takes F32; BF16 has
// 255 * 128 and a low digit of -128.
TEST_F(LinearInt16Cuda, TheLongestRowsOfExtremeDigitsDoNotOverflow) {
  const float largest = 32639.0F;  // 127 * 257
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t k : {std::int64_t{512}, std::int64_t{24584}, int16::kMaxTerms}) {
      Case c{.m = 3, .n = 4, .k = k, .dtype = dtype};
      c.make(pool_);
      for (std::int64_t i = 0; i < k; ++i) {
        c.x[static_cast<std::size_t>(i)] = largest;
        c.x[static_cast<std::size_t>(k + i)] = -largest;
        c.x[static_cast<std::size_t>(2 * k + i)] = i % 2 == 0 ? largest : 32384.0F;  // 127 * 256 - 128
        const float wide[] = {largest, -largest, i == 0 ? largest : 32384.0F, i == 0 ? largest : -32384.0F};
        const unsigned narrow[] = {0x46fe, 0xc6fe, i == 0 ? 0x46feU : 0x46fdU, i == 0 ? 0x46feU : 0xc6fdU};
        for (std::int64_t n = 0; n < c.n; ++n) {
          if (dtype == DType::kF32)
            std::memcpy(c.w.storage.data() + (n * k + i) * 4, &wide[n], sizeof(float));
          else
            store_weight(c.w.storage.data(), c.dtype, n * k + i, narrow[n]);
        }
      }
      c.send();
      expect_every_schedule_matches(c);
    }
  expect_too_many_terms_are_refused(int16::kMaxTerms);
}

TEST_F(LinearInt16Cuda, FusedOutputsHaveTheBitsOfSeparateOnes) {
  for (const std::int64_t m : {1, 6, 40, 150}) expect_fused_outputs_match(m);
}

// Whole tiles of small weights, whose products with what a NaN leaves as digits would be finite.
TEST_F(LinearInt16Cuda, ANaNInWholeTilesIsAnErrorThatNamesThePlace) {
  for (const std::int64_t m : {1, 64, 80, 96, 112, 128, 256, 2048})
    for (const WeightUse use : {WeightUse::kRead, WeightUse::kTake}) {
      Case c{.m = m, .n = 256, .k = 1024};
      c.make(pool_);
      for (std::int64_t i = 0; i < c.n * c.k; ++i) store_weight(c.w.storage.data(), c.dtype, i, 0x3a83);  // 0.001
      c.x[static_cast<std::size_t>((m == 1 ? 0 : 5) * c.k + 700)] = std::numeric_limits<float>::quiet_NaN();
      c.send();
      const WeightView weight = c.weight(c.device_w.as<void>());
      const LinearLayer layer(*context_, {&weight, 1}, "down", use);
      const Workspace workspace(*context_, layer.workspace_bytes(c.m));
      const LinearOutput output = c.gpu_output();
      layer.run(c.gpu_x(), {&output, 1}, workspace);
      EXPECT_THROW(check_workspace(*context_, workspace.data(), nullptr), Error) << m;
    }
}

TEST_F(LinearInt16Cuda, NonFiniteOperandsAndResultsAreErrorsThatNameThePlace) {
  expect_non_finite_operands_to_be_named();
}

TEST_F(LinearInt16Cuda, OtherBitsWouldBeCaught) {
  expect_other_bits_to_be_caught();
}

}  // namespace
}  // namespace reprofuse
