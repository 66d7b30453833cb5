#include "study/bench_linear.hpp"

#include <gtest/gtest.h>

#include "reprofuse/error.hpp"

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

TEST(BenchLinear, RatiosFollowFromTheMedians) {
  const BenchRow row{.shape = {"a", 1000, 2000},
                     .m = 4,
                     .weights = DType::kBF16,
                     .numerics = "fma-1",
                     .implementation = "scalar",
                     .linear = {1e-3, 0, 0},
                     .read = {{2e-3, 0, 0}, 16'000'000},
                     .sgemm = Times{3e-3, 0, 0}};
  EXPECT_DOUBLE_EQ(row.gigabytes_per_second(), 4.0);
  EXPECT_DOUBLE_EQ(row.gigaflops(), 16.0);
  EXPECT_DOUBLE_EQ(row.read_fraction(), 0.5);
  EXPECT_DOUBLE_EQ(*row.sgemm_ratio(), 3.0);
}

TEST(BenchLinear, TheCpuTimerMeasuresEveryRowItIsAskedForUpToTheShapesLimit) {
  const auto timer =
      make_cpu_linear_timer({.numerics = "fma-1", .weights = DType::kF16, .isa = Isa::kScalar, .threads = 2});
  std::vector<std::int64_t> measured;
  const std::int64_t ms[] = {1, 3, 70};
  timer->measure({"small", 4096, 512, 64}, ms, [&](const BenchRow& row) {
    measured.push_back(row.m);
    EXPECT_EQ(row.implementation, "scalar");
    EXPECT_GT(row.linear.fastest, 0);
    EXPECT_LE(row.linear.fastest, row.linear.median);
    EXPECT_LE(row.linear.median, row.linear.p90);
    EXPECT_GE(static_cast<double>(row.read.bytes), row.weight_bytes());
  });
  EXPECT_EQ(measured, (std::vector<std::int64_t>{1, 3}));
  EXPECT_FALSE(timer->sgemm_description().empty());
}

}  // namespace
}  // namespace reprofuse::study
