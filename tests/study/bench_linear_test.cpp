#include <gtest/gtest.h>

#include "ops/context_state.hpp"
#include "reprofuse/error.hpp"
#include "study/bench/linear.hpp"
#include "support/host_backend.hpp"
#include "support/messages.hpp"

namespace reprofuse::study {
namespace {

TEST(BenchLinear, AModelsNameGivesItsProjections) {
  const auto shapes = parse_bench_shapes("llama-3.2-3b");
  ASSERT_EQ(shapes.size(), 5U);
  EXPECT_EQ(shapes[0].name, "qkv");
  EXPECT_EQ(shapes[0].n, 5120);
  EXPECT_EQ(shapes[0].k, 3072);
  EXPECT_EQ(shapes[2].n, 16384);
  EXPECT_EQ(shapes[3].k, 8192);
  EXPECT_EQ(shapes[4].n, 128256);
  for (const std::string_view model : bench_models()) EXPECT_EQ(parse_bench_shapes(model).size(), 5U) << model;
}

TEST(BenchLinear, AListOfShapesIsReadAsWritten) {
  const auto shapes = parse_bench_shapes("5120x3072,17x1");
  ASSERT_EQ(shapes.size(), 2U);
  EXPECT_EQ(shapes[1].name, "17x1");
  EXPECT_EQ(shapes[1].n, 17);
  EXPECT_EQ(shapes[1].k, 1);
}

TEST(BenchLinear, ModelsAndShapesMayStandInOneList) {
  const auto shapes = parse_bench_shapes("llama-3.2-3b,17x1,llama-8b");
  ASSERT_EQ(shapes.size(), 11U);
  EXPECT_EQ(shapes[5].name, "17x1");
  EXPECT_EQ(shapes[6].n, 6144);
}

TEST(BenchLinear, AnythingElseIsRefusedWithThePartThatIsWrong) {
  for (const std::string_view text : {"", "5120", "5120x", "x3072", "0x5", "5x-1", "5x6,", "5x6,7y8", "5x6x7"}) {
    try {
      parse_bench_shapes(text);
      FAIL() << text << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string_view(error.what()).find("is neither NxK nor"), std::string_view::npos) << error.what();
    }
  }
}

TEST(BenchLinear, TimesAreOrderStatistics) {
  std::vector<double> seconds;
  for (int i = 20; i >= 0; --i) seconds.push_back(i);
  const Times times = summarise(seconds);
  EXPECT_EQ(times.fastest, 0);
  EXPECT_EQ(times.median, 10);
  EXPECT_EQ(times.p90, 18);
}

Measured measured(const std::string& numerics, double median) {
  return {.numerics = numerics, .implementation = "scalar", .times = {median, 0, 0}, .workspace_bytes = 0};
}

BenchRow row_of(const BenchShape& shape, std::int64_t m, double linear, double baseline) {
  return {.shape = shape,
          .m = m,
          .weights = DType::kBF16,
          .linear = measured("fma-1", linear),
          .read = {{2e-3, 0, 0}, 16'000'000},
          .peak_gigaflops = 64,
          .baselines = {measured("layercast", baseline)}};
}

TEST(BenchLinear, RatiosFollowFromTheMedians) {
  const BenchRow row = row_of({"a", 1000, 2000}, 4, 1e-3, 3e-3);
  EXPECT_DOUBLE_EQ(row.gigabytes_per_second(), 4.0);
  EXPECT_DOUBLE_EQ(row.gigaflops(), 16.0);
  EXPECT_DOUBLE_EQ(row.read_fraction(), 0.5);
  EXPECT_DOUBLE_EQ(row.fma_fraction(), 0.25);
  EXPECT_DOUBLE_EQ(row.ratio_to(row.baselines[0]), 3.0);
}

TEST(BenchLinear, AForwardIsEveryLayersProjectionsAndTheHead) {
  std::vector<BenchRow> rows = {row_of({"17x1", 17, 1}, 1, 100, 100)};  // no model's, so in no sum
  for (const BenchShape& shape : parse_bench_shapes("llama-3.2-3b"))
    for (const std::int64_t m : {1, 512})
      if (m <= shape.max_m) rows.push_back(row_of(shape, m, static_cast<double>(m), 10));
  const auto sums = sum_forwards(rows);
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].model, "llama-3.2-3b");
  EXPECT_EQ(sums[0].layers, 28);
  EXPECT_TRUE(sums[0].with_head);
  EXPECT_DOUBLE_EQ(sums[0].linear, 28 * 4 + 1);
  EXPECT_DOUBLE_EQ(sums[0].baselines[0], (28 * 4 + 1) * 10.0);
  EXPECT_EQ(sums[1].m, 512);
  EXPECT_FALSE(sums[1].with_head);
  EXPECT_DOUBLE_EQ(sums[1].linear, 28 * 4 * 512.0);

  rows.erase(rows.begin() + 1);  // one projection missing at m = 1: no sum that could be mistaken for a forward
  EXPECT_EQ(sum_forwards(rows).size(), 1U);
}

TEST(BenchLinear, TheCpuTimerMeasuresEveryRowItIsAskedForUpToTheShapesLimit) {
  const auto timer = make_linear_timer({.numerics = "fma-1",
                                        .baselines = {"layercast", "sgemm"},
                                        .baselines_may_miss = true,
                                        .weights = DType::kF16,
                                        .isa = Isa::kScalar,
                                        .threads = 2});
  std::vector<std::int64_t> measured_m;
  const std::int64_t ms[] = {1, 3, 70};
  timer->measure({"small", 4096, 512, 64}, ms, [&](const BenchRow& row) {
    measured_m.push_back(row.m);
    EXPECT_EQ(row.linear.implementation, "scalar");
    EXPECT_GT(row.linear.times.fastest, 0);
    EXPECT_LE(row.linear.times.fastest, row.linear.times.median);
    EXPECT_LE(row.linear.times.median, row.linear.times.p90);
    EXPECT_GE(static_cast<double>(row.read.bytes), row.weight_bytes());
    EXPECT_GT(row.peak_gigaflops, 0);
    std::vector<std::string> names;
    for (const Measured& baseline : row.baselines) names.push_back(baseline.numerics);
    EXPECT_EQ(names, timer->baselines());
  });
  EXPECT_EQ(measured_m, (std::vector<std::int64_t>{1, 3}));
  EXPECT_FALSE(timer->vendor_description().empty());
}

TEST(BenchLinear, ABackendWithoutThreadsAndLibrariesIsTakenForNoOther) {
  const auto backend = std::make_shared<test::HostBackend>();
  const Context context = make_context(backend, find_contract("fma-1"));
  EXPECT_EQ(error_of([&] { make_calling_linear_timer({}, context); }),
            "the host backend computes on no threads of this process");
  for (const Numerics& baseline : baselines()) EXPECT_EQ(vendor_of(make_context(backend, baseline)), "");
  EXPECT_EQ(vendor_of(Context::cpu("fma-1")), "");
  const std::int64_t m = 1;
  const auto by_replays = make_replaying_linear_timer({}, context);
  EXPECT_EQ(error_of([&] {
              by_replays->measure({"small", 4, 8}, {&m, 1}, [](const BenchRow&) {});
            }),
            "the host backend has no plain read for benches to compare with");
  EXPECT_GT(backend->replays, 0) << "its layers were timed before that";
}

}  // namespace
}  // namespace reprofuse::study
