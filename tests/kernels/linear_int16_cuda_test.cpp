// int16-1 on the GPU: every kernel, with K split over any number of CTAs, gives the reference's bits at every shape.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/linear/int16/linear.hpp"
#include "kernels/linear_cuda_case.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/int16.hpp"
#include "numerics/widen.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {
namespace {

using cuda::int16::CudaLinear;
using cuda::integer::Schedule;
using test::Case;
using test::kDTypes;

// The linear layers of int16-1 beside attention that every backend has.
constexpr Contract kLinearAlone{.name = "int16-1, linear layers",
                                .summary = "for these tests",
                                .linear = &reference::kLinearInt16,
                                .attention = &reference::kAttentionFma1,
                                .cache = &reference::kCacheF32,
                                .elementwise = &reference::kElementwiseFma1};

cuda::integer::Kernel kernel_of(cuda::integer::Exchange exchange) {
  return {.name = "test",
          .function = nullptr,
          .tile_m = 64,
          .tile_n = 64,
          .threads = 128,
          .shared_bytes = 0,
          .vector_loads = false,
          .exchange = exchange,
          .cost = {.k_tile = 1, .start = 3},
          .max_k_tiles = 1024,
          .prepared = false,
          .ctas_per_sm = 1};
}

// Forty tiles in clusters of three have fewer k-tiles each than in clusters of two; but where the device holds only 39
// such clusters, the last tile would wait for all others.
TEST(LinearInt16Schedule, ClustersThatDoNotFitTheDeviceAreLeftOut) {
  const cuda::Device device{.ordinal = 0,
                            .sm_count = 132,
                            .shared_bytes_per_cta = 0,
                            .shared_bytes_per_sm = 0,
                            .reserved_shared_bytes_per_cta = 0,
                            .memory_bytes_per_clock = 0,
                            .major = 9,
                            .minor = 0,
                            .architecture = "sm_90"};
  std::vector<cuda::integer::Kernel> kernels = {kernel_of(cuda::integer::Exchange::kCluster)};
  const cuda::integer::Problem problem{.m = 1, .k = 3072, .n = {40 * 64}, .vector_loads = false};
  kernels[0].at_once = {132, 66, 40, 30, 22, 17, 15, 0};
  EXPECT_EQ(cuda::integer::choose_schedule(device, kernels, problem).splits, 3);
  kernels[0].at_once[2] = 39;
  EXPECT_EQ(cuda::integer::choose_schedule(device, kernels, problem).splits, 2);
  for (const Schedule schedule : cuda::integer::possible_schedules(kernels, problem)) EXPECT_NE(schedule.splits, 8);
}

// Kept digits: few rows take narrow tiles, many take wide ones, and K is split where tiles are too few for the device.
TEST(LinearInt16Schedule, KeptDigitsTakeTilesThatFitTheRows) {
  const cuda::Device device{.ordinal = 0,
                            .sm_count = 132,
                            .shared_bytes_per_cta = 0,
                            .shared_bytes_per_sm = 0,
                            .reserved_shared_bytes_per_cta = 0,
                            .memory_bytes_per_clock = 0,
                            .major = 9,
                            .minor = 0,
                            .architecture = "sm_90"};
  cuda::integer::Kernel narrow = kernel_of(cuda::integer::Exchange::kCluster);
  narrow.tile_m = 8;
  narrow.tile_n = 128;
  narrow.prepared = narrow.kept = true;
  narrow.digit_cost = {.k_tile = 0.3, .start = 4, .exchange = 0.3};
  narrow.at_once = {132, 66, 39, 32, 22, 17, 15, 0};
  cuda::integer::Kernel wide = narrow;
  wide.tile_m = 128;
  wide.digit_cost = {.k_tile = 1.3, .start = 10, .exchange = 4.5};
  const std::vector<cuda::integer::Kernel> kernels = {narrow, wide};
  const auto chosen = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return cuda::integer::choose_schedule(device, kernels, {.m = m, .k = k, .n = {n}, .vector_loads = false});
  };
  EXPECT_EQ(chosen(1, 16384, 3072).kernel, 0);
  EXPECT_EQ(chosen(1, 16384, 3072).splits, 1);
  EXPECT_GT(chosen(1, 3072, 8192).splits, 1);
  EXPECT_EQ(chosen(2048, 16384, 3072).kernel, 1);
  EXPECT_EQ(chosen(2048, 16384, 3072).splits, 1);
}

// Prepared weights share the memory of partials: long rows are prepared some columns at a time, in parts alike.
TEST(LinearInt16Schedule, WeightsThatDoNotFitArePreparedInParts) {
  EXPECT_EQ(cuda::integer::prepared_at_a_time(128, 3072), 64);  // 85 fit
  EXPECT_EQ(cuda::integer::prepared_at_a_time(40, 3072), 40);
  EXPECT_EQ(cuda::integer::prepared_at_a_time(5, int16::kMaxTerms), 2);
}

class LinearInt16Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      context_ = make_context(kernels::open_cuda({.ordinal = 0, .isa = std::nullopt, .threads = 0}), kLinearAlone);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // Operands that stay as they are, on every schedule.
  void expect_every_schedule_matches(Case& c, WeightUse use = WeightUse::kRead, int max_splits = 8) {
    c.reference = reference::linear_int16;
    const std::vector<float> expected = c.expected();
    const WeightView weight = c.weight(c.device_w.as<void>());
    const CudaLinear layer({.ordinal = 0, .op = 0, .name = "test", .use = use}, {&weight, 1});
    const Workspace workspace(*context_, layer.workspace_bytes(c.m));
    const LinearOutput output = c.gpu_output();
    const kernels::LinearCall call{c.gpu_x(), {&output, 1}, workspace.data(), nullptr};
    for (const Schedule schedule : layer.schedules(call)) {
      if (schedule.splits > max_splits) continue;
      c.poison();
      layer.run_with(call, schedule);
      EXPECT_FALSE(cuda::take_record(0, workspace.data(), nullptr)) << c.describe();
      const std::string name = layer.kernel_table()[static_cast<std::size_t>(schedule.kernel)].name;
      const auto difference = test::difference_to(c, expected);
      EXPECT_FALSE(difference) << c.describe() << " " << name << " splits " << schedule.splits << ": "
                               << difference->description();
      kernels_seen_ += name.starts_with("wgmma") ? 1 : 0;
      ++schedules_run_;
    }
  }

  void expect_matches_when_made(Case c, WeightUse use = WeightUse::kRead, int max_splits = 8) {
    c.make(pool_);
    expect_every_schedule_matches(c, use, max_splits);
  }

  std::optional<Context> context_;
  ThreadPool pool_{4};
  int schedules_run_ = 0;
  int kernels_seen_ = 0;  // runs with the products of a warp group
};

TEST_F(LinearInt16Cuda, EveryScheduleHasTheReferenceBitsAtTileEdges) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t m :
         {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193, 290})
      expect_matches_when_made({.m = m, .n = 130, .k = 1088, .dtype = dtype, .bias = m % 2 == 0});
  EXPECT_GT(schedules_run_, 500);
  const bool has_warp_groups = context_->description().find("sm_90") != std::string::npos;
  EXPECT_EQ(kernels_seen_ > 300, has_warp_groups);
}

TEST_F(LinearInt16Cuda, EveryScheduleHasTheReferenceBitsAtRaggedShapes) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t n : {1, 63, 64, 65, 129, 193, 300, 385})
      for (const std::int64_t k : {1, 7, 8, 33, 127, 128, 136, 504, 512, 520, 1032, 1544})
        expect_matches_when_made({.m = n % 11 + 1, .n = n, .k = k, .dtype = dtype, .bias = true});
}

TEST_F(LinearInt16Cuda, StridedAndUnalignedRowsHaveTheReferenceBits) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t m : {1, 33, 130}) {
      expect_matches_when_made(
          {.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 4, .w_padding = 8, .y_padding = 3});
      expect_matches_when_made(
          {.m = m, .n = 70, .k = 640, .dtype = dtype, .x_padding = 1, .w_padding = 3, .y_padding = 5});
      expect_matches_when_made({.m = m, .n = 70, .k = 640, .dtype = dtype, .x_offset = 1, .w_offset = 1});
    }
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
TEST_F(LinearInt16Cuda, BlocksThatTakeSeveralTilesHaveTheReferenceBits) {
  for (const std::int64_t k : {136, 1088}) expect_matches_when_made({.m = 700, .n = 2600, .k = k});
}

TEST_F(LinearInt16Cuda, WeightsPreparedInPartsHaveTheReferenceBits) {
  expect_matches_when_made({.m = 65, .n = 257, .k = int16::kMaxTerms, .bias = true});
}

// Rows of zeros, of subnormals, near the largest number, with one element that dwarfs the others.
TEST_F(LinearInt16Cuda, ExtremeRowsHaveTheReferenceBits) {
  Case c{.m = 6, .n = 66, .k = 264};
  c.make(pool_);
  const auto scale_row = [&](std::int64_t row, float factor) {
    for (std::int64_t k = 0; k < c.k; ++k) c.x[static_cast<std::size_t>(row * c.k + k)] *= factor;
  };
  scale_row(0, 0.0F);
  scale_row(1, 0x1p-130F);
  scale_row(2, 0x1p-105F);
  scale_row(3, 0x1p+90F);
  c.x[static_cast<std::size_t>(4 * c.k + 100)] = 0x1p+60F;
  for (std::int64_t k = 0; k < c.k; ++k) {
    store_weight(c.w.storage.data(), c.dtype, k, 0);                                   // row 0: zeros
    store_weight(c.w.storage.data(), c.dtype, c.k + k, 0x0001);                        // row 1: the smallest subnormal
    store_weight(c.w.storage.data(), c.dtype, 2 * c.k + k, k == 9 ? 0x4f00 : 0x3f80);  // row 2: one giant
  }
  c.send();
  expect_every_schedule_matches(c);
}

// Blocks of very different sizes: within the range of a row's units, at its end, and below it.
TEST_F(LinearInt16Cuda, BlocksOfEverySizeHaveTheReferenceBits) {
  const Case cases[] = {{.m = 12, .n = 66, .k = 2104}, {.m = 1, .n = 128, .k = 2048}, {.m = 70, .n = 128, .k = 2048}};
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
  const test::DeviceBuffer memory(0, static_cast<std::size_t>(int16::kMaxTerms + 1) * 2);
  const WeightView beyond{memory.as<void>(), DType::kBF16, 1, int16::kMaxTerms + 1, int16::kMaxTerms + 1};
  EXPECT_THROW(LinearLayer(*context_, {&beyond, 1}), Error);
}

// Ten outputs are two launches; each output has its own size, bias and place.
TEST_F(LinearInt16Cuda, FusedOutputsHaveTheBitsOfSeparateOnes) {
  for (const std::int64_t m : {1, 6, 40, 150}) {
    std::vector<Case> cases;
    std::vector<WeightView> weights;
    std::vector<LinearOutput> outputs;
    const std::int64_t sizes[] = {256, 128, 3, 300, 129, 64, 1, 16, 77, 130};
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      cases.push_back({.m = m, .n = sizes[i], .k = 1040, .bias = i % 2 == 0, .y_padding = static_cast<int>(i)});
      cases.back().reference = reference::linear_int16;
      cases.back().make(pool_);
    }
    for (Case& c : cases) {
      c.poison();
      weights.push_back(c.weight(c.device_w.as<void>()));
      outputs.push_back(c.gpu_output());
    }
    const LinearLayer layer(*context_, weights, "fused");
    const Workspace workspace(*context_, layer.workspace_bytes(m));
    layer.run(cases[0].gpu_x(), outputs, workspace);
    check_workspace(*context_, workspace.data(), nullptr);
    for (const Case& c : cases) {
      const auto difference = test::difference_to(c, c.expected());
      EXPECT_FALSE(difference) << c.describe() << ": " << difference->description();
    }
  }
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
  Case c{.m = 60, .n = 200, .k = 1024};
  c.make(pool_);
  c.x[static_cast<std::size_t>(5 * c.k + 700)] = std::numeric_limits<float>::quiet_NaN();
  c.send();
  const WeightView weight = c.weight(c.device_w.as<void>());
  const LinearLayer layer(*context_, {&weight, 1}, "qkv");
  const Workspace workspace(*context_, layer.workspace_bytes(c.m));
  const LinearOutput output = c.gpu_output();
  layer.run(c.gpu_x(), {&output, 1}, workspace);
  try {
    check_workspace(*context_, workspace.data(), nullptr);
    FAIL() << "a NaN passed silently";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "linear 'qkv' row 5 column 0: the result is not finite");
  }
  store_weight(c.w.storage.data(), c.dtype, 17 * c.k + 3, 0x7f80);
  c.send();
  try {
    const WeightView infinite = c.weight(c.device_w.as<void>());
    const LinearLayer refused(*context_, {&infinite, 1}, "head");
    FAIL() << "an infinite weight was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonFinite);
    EXPECT_STREQ(error.what(), "linear 'head' weight 0 row 17: a weight is not finite");
  }
}

// The control: the bits of the other contract must show in the comparison used above.
TEST_F(LinearInt16Cuda, OtherBitsWouldBeCaught) {
  Case c{.m = 4, .n = 64, .k = 1300};
  c.make(pool_);
  const WeightView weight = c.weight(c.device_w.as<void>());
  const LinearLayer layer(*context_, {&weight, 1});
  const Workspace workspace(*context_, layer.workspace_bytes(c.m));
  const LinearOutput output = c.gpu_output();
  c.poison();
  layer.run(c.gpu_x(), {&output, 1}, workspace);
  EXPECT_TRUE(test::difference_to(c, c.expected()));  // of fma-1
}

}  // namespace
}  // namespace reprofuse
