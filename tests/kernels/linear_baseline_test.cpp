// The baselines on the CPU: within the error that their arithmetic allows, through the same layer as a contract.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <thread>

#include "kernels/linear_baseline_case.hpp"

namespace reprofuse {
namespace {

constexpr std::string_view kBaselines[] = {"sgemm", "layercast", "bf16"};

class LinearBaseline : public ::testing::Test {
 protected:
  void SetUp() override {
    const float one = 1.0F;
    const WeightView weight{&one, DType::kF32, 1, 1, 1};
    try {
      const LinearLayer layer(Context::cpu("sgemm", std::nullopt, 1), {&weight, 1});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      EXPECT_NE(std::string_view(error.what()).find("apt install libopenblas0-pthread"), std::string_view::npos);
      GTEST_SKIP() << error.what();
    }
  }

  static LinearLayer make_layer(const Context& context, const BaselineCase& c) {
    std::vector<WeightView> views;
    for (std::size_t i = 0; i < c.n.size(); ++i) views.push_back(c.weight_view(i, c.weights[i].storage.data()));
    return {context, views, "baseline"};
  }

  static std::vector<std::vector<float>> run(const Context& context, const LinearLayer& layer, const BaselineCase& c) {
    const Workspace workspace(context, layer.workspace_bytes(c.m));
    std::vector<std::vector<float>> results;
    std::vector<LinearOutput> outputs;
    for (std::size_t i = 0; i < c.n.size(); ++i) results.push_back(c.poisoned(i));
    for (std::size_t i = 0; i < c.n.size(); ++i)
      outputs.push_back({c.y_view(i, results[i].data()), c.bias ? c.biases[i].data() : nullptr});
    layer.run(c.x_view(c.x.data()), outputs, workspace);
    return results;
  }

  static std::vector<std::vector<float>> results_of(std::string_view numerics, const BaselineCase& c) {
    const Context context = Context::cpu(numerics, std::nullopt, 2);
    return run(context, make_layer(context, c), c);
  }

  static std::string error_of(std::string_view numerics, const BaselineCase& c) {
    try {
      make_layer(Context::cpu(numerics, std::nullopt, 1), c);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  ThreadPool pool_{2};
};

TEST_F(LinearBaseline, ErrorsStayWithinTheBoundOfTheArithmetic) {
  for (const std::string_view numerics : kBaselines)
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      if (numerics == "bf16" && dtype == DType::kF16) continue;
      for (BaselineCase& c : baseline_cases()) {
        c.dtype = dtype;
        c.make(pool_);
        const auto results = results_of(numerics, c);
        for (std::size_t i = 0; i < c.n.size(); ++i)
          EXPECT_LE(c.worst_error(i, results[i], tolerance_of(numerics, c.k)), 1.0)
              << fmt::format("{} {} m {} k {} output {}", numerics, dtype_name(dtype), c.m, c.k, i);
      }
    }
}

// The negative control of the bounds: one of binary32 must not hold for BF16, whose error is far larger.
TEST_F(LinearBaseline, Bf16IsFarLessExactThanSgemm) {
  BaselineCase c{.m = 9, .k = 768, .n = {130}};
  c.make(pool_);
  const double tolerance = tolerance_of("sgemm", c.k);
  const double sgemm = c.worst_error(0, results_of("sgemm", c)[0], tolerance);
  const double bf16 = c.worst_error(0, results_of("bf16", c)[0], tolerance);
  EXPECT_LE(sgemm, 1.0);
  EXPECT_GT(bf16, 1.0);
  EXPECT_GT(bf16, 100 * sgemm);
}

TEST_F(LinearBaseline, AMissingBiasOrASwappedOutputExceedsTheBound) {
  BaselineCase c{.m = 4, .k = 64, .n = {40, 40}, .bias = true};
  c.make(pool_);
  BaselineCase without = c;
  without.bias = false;
  for (const std::string_view numerics : kBaselines) {
    const double tolerance = tolerance_of(numerics, c.k);
    EXPECT_GT(c.worst_error(0, results_of(numerics, without)[0], tolerance), 1.0) << numerics;
    EXPECT_GT(c.worst_error(0, results_of(numerics, c)[1], tolerance), 1.0) << numerics;
  }
}

TEST_F(LinearBaseline, OnlyBf16ResultsAreBf16Values) {
  BaselineCase c{.m = 5, .k = 300, .n = {33}, .bias = true};
  c.make(pool_);
  for (const std::string_view numerics : kBaselines) {
    const auto y = results_of(numerics, c)[0];
    const bool all =
        std::all_of(y.begin(), y.end(), [](float v) { return std::bit_cast<std::uint32_t>(v) << 16 == 0; });
    EXPECT_EQ(all, numerics == "bf16") << numerics;
  }
}

TEST_F(LinearBaseline, TheWorkspaceHoldsTheTransientCopyOfTheLargestWeight) {
  BaselineCase c{.m = 8, .k = 64, .n = {32, 128, 16}};
  c.make(pool_);
  const std::size_t cast = 128 * 64 * sizeof(float);
  const auto bytes = [&](std::string_view numerics) {
    return make_layer(Context::cpu(numerics, std::nullopt, 1), c).workspace_bytes(c.m);
  };
  EXPECT_EQ(bytes("sgemm"), 0U);
  EXPECT_EQ(bytes("layercast"), cast);
  EXPECT_EQ(bytes("bf16"), cast + 8 * 64 * sizeof(float));
  c.dtype = DType::kF32;
  c.weights.clear();
  c.make(pool_);
  EXPECT_EQ(bytes("layercast"), 0U) << "binary32 weights need no cast";
}

TEST_F(LinearBaseline, TheWeightsMayGoOnceTheLayerIsMade) {
  for (const std::string_view numerics : kBaselines) {
    BaselineCase c{.m = 2, .k = 40, .n = {24}};
    c.make(pool_);
    const Context context = Context::cpu(numerics, std::nullopt, 1);
    std::vector<std::byte> gone = c.weights[0].storage;
    const WeightView view = c.weight_view(0, gone.data());
    const LinearLayer layer(context, {&view, 1});
    std::fill(gone.begin(), gone.end(), std::byte{0xff});
    EXPECT_LE(c.worst_error(0, run(context, layer, c)[0], tolerance_of(numerics, c.k)), 1.0) << numerics;
  }
}

TEST_F(LinearBaseline, ThreadsMayShareALayer) {
  for (const std::string_view numerics : kBaselines) {
    BaselineCase c{.m = 6, .k = 128, .n = {96, 32}, .bias = true};
    c.make(pool_);
    const Context context = Context::cpu(numerics, std::nullopt, 2);
    const LinearLayer layer = make_layer(context, c);
    std::vector<double> worst(4, INFINITY);
    std::vector<std::thread> threads;
    for (double& mine : worst)
      threads.emplace_back([&] {
        double largest = 0.0;
        for (int repeat = 0; repeat < 8; ++repeat) {
          const auto results = run(context, layer, c);
          for (std::size_t i = 0; i < c.n.size(); ++i)
            largest = std::max(largest, c.worst_error(i, results[i], tolerance_of(numerics, c.k)));
        }
        mine = largest;
      });
    for (std::thread& thread : threads) thread.join();
    for (const double mine : worst) EXPECT_LE(mine, 1.0) << numerics;
  }
}

TEST_F(LinearBaseline, Bf16RefusesF16WeightsAndSaysWhatTakesThem) {
  BaselineCase c{.m = 1, .k = 8, .n = {8}, .dtype = DType::kF16};
  c.make(pool_);
  EXPECT_EQ(error_of("bf16", c),
            "linear 'baseline': the weights are f16; numerics 'bf16' takes bf16, or f32, which it rounds. 'layercast' "
            "takes f16");
  EXPECT_EQ(error_of("layercast", c), "");
}

// A baseline does what frameworks do, which is nothing; a contract names the place.
TEST_F(LinearBaseline, NonFiniteResultsPassUnnoticed) {
  BaselineCase c{.m = 2, .k = 16, .n = {4}};
  c.make(pool_);
  c.x[3] = std::numeric_limits<float>::quiet_NaN();
  for (const std::string_view numerics : {"sgemm", "layercast"}) EXPECT_TRUE(std::isnan(results_of(numerics, c)[0][0]));
  EXPECT_NO_THROW(results_of("bf16", c));
  EXPECT_THROW(results_of("fma-1", c), Error);
}

}  // namespace
}  // namespace reprofuse
