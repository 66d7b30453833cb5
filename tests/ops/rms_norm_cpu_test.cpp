// RMS norms on the CPU: every instruction set gives the reference's bits, and the order of its sum is what makes them.
#include <array>

#include "numerics/fma1.hpp"
#include "support/model_ops_case.hpp"

namespace reprofuse {
namespace {

struct NormSpec {
  std::int64_t rows;
  std::int64_t k;
  bool delta = false;
  bool in_place = false;
  std::int64_t padding = 0;
  float scale = 1.0F;
};

struct NormCase {
  explicit NormCase(const NormSpec& of)
      : spec(of),
        x(of.rows, of.k, 11, of.padding, of.scale),
        delta(of.rows, of.k, 12, 2 * of.padding, of.scale),
        weight(study::make_activations(13, 1, of.k)),
        y(of.rows, of.k, 14, of.padding) {}

  kernels::RmsNormCall call() {
    return {.x = x.view(),
            .delta = spec.delta ? as_const(delta.view()) : ConstMatrix{},
            .weight = weight.data(),
            .eps = 1e-6F,
            .y = spec.in_place ? x.view() : y.view()};
  }

  NormSpec spec;
  Rows x;
  Rows delta;
  std::vector<float> weight;
  Rows y;
};

void expect_reference_bits(const NormSpec& spec, int threads = 1) {
  NormCase expected(spec);
  ASSERT_FALSE(reference::rms_norm(expected.call()));
  on_every_isa(threads, [&](const cpu::CpuDevice& device) {
    NormCase mine(spec);
    ASSERT_FALSE(cpu::rms_norm(device, mine.call()));
    ASSERT_TRUE(same_bits(mine.x, expected.x)) << "x, k " << spec.k;
    ASSERT_TRUE(same_bits(mine.y, expected.y)) << "y, k " << spec.k;
  });
}

constexpr std::int64_t kSizes[] = {1,   2,   3,   15,  16,  17,  31,  32,  33,  64,   100,  127,  128,  129,
                                   255, 256, 257, 271, 272, 511, 512, 513, 768, 1000, 1023, 1025, 2048, 4099};

TEST(RmsNormCpu, EveryIsaGivesTheReferenceBitsAtEverySize) {
  for (const std::int64_t k : kSizes) {
    expect_reference_bits({.rows = 3, .k = k});
    expect_reference_bits({.rows = 3, .k = k, .delta = true, .padding = 5});
    expect_reference_bits({.rows = 2, .k = k, .in_place = true, .padding = 1});
  }
}

TEST(RmsNormCpu, BitsDoNotDependOnThreads) {
  for (const int threads : {1, 2, 3, 5}) expect_reference_bits({.rows = 67, .k = 1111, .delta = true}, threads);
}

TEST(RmsNormCpu, TinyAndHugeRowsGiveTheReferenceBits) {
  for (const float scale : {0.0F, 0x1p-140F, 0x1p-75F, 0x1p+55F})
    for (const std::int64_t k : {17, 300, 1024}) expect_reference_bits({.rows = 2, .k = k, .scale = scale});
}

TEST(RmsNormCpu, TheFirstRowWhoseSumOverflowsIsReported) {
  for (const int threads : {1, 4})
    on_every_isa(threads, [&](const cpu::CpuDevice& device) {
      for (const float bad : {0x1p+64F, std::numeric_limits<float>::quiet_NaN()}) {
        NormCase expected({.rows = 40, .k = 1000});
        expected.x.at(37, 3) = expected.x.at(21, 999) = bad;
        NormCase mine({.rows = 40, .k = 1000});
        mine.x.at(37, 3) = mine.x.at(21, 999) = bad;
        const auto place = reference::rms_norm(expected.call());
        ASSERT_EQ(describe(place), "21:0");
        ASSERT_EQ(describe(cpu::rms_norm(device, mine.call())), "21:0");
      }
    });
}

// The same norm with other sums of squares: `lanes` chains, fused or not, folded in halves or in ascending order.
void altered_norm(const kernels::RmsNormCall& call, std::size_t lanes, bool fused, bool halving) {
  for (std::int64_t m = 0; m < call.x.rows; ++m) {
    const float* x = call.x.data + m * call.x.stride;
    std::vector<float> sums(lanes);
    for (std::int64_t i = 0; i < call.x.cols; ++i) {
      float& sum = sums[static_cast<std::size_t>(i) % lanes];
      sum = fused ? std::fma(x[i], x[i], sum) : sum + x[i] * x[i];
    }
    for (std::size_t half = lanes / 2; halving && half >= 1; half /= 2)
      for (std::size_t j = 0; j < half; ++j) sums[j] = sums[j] + sums[j + half];
    for (std::size_t j = 1; !halving && j < lanes; ++j) sums[0] = sums[0] + sums[j];
    const float inverse = 1.0F / std::sqrt(sums[0] / static_cast<float>(call.x.cols) + call.eps);
    for (std::int64_t i = 0; i < call.x.cols; ++i)
      call.y.data[m * call.y.stride + i] = call.weight[i] * (x[i] * inverse);
  }
}

TEST(RmsNormCpu, AnotherOrderGivesOtherBits) {
  const NormSpec spec{.rows = 64, .k = 1024};
  NormCase expected(spec);
  ASSERT_FALSE(reference::rms_norm(expected.call()));
  const auto bits_match = [&](std::size_t lanes, bool fused, bool halving) {
    NormCase other(spec);
    altered_norm(other.call(), lanes, fused, halving);
    return static_cast<bool>(same_bits(other.y, expected.y));
  };
  EXPECT_TRUE(bits_match(fma1::kNormLanes, true, true));
  EXPECT_FALSE(bits_match(128, true, true));
  EXPECT_FALSE(bits_match(512, true, true));
  EXPECT_FALSE(bits_match(fma1::kNormLanes, false, true));
  EXPECT_FALSE(bits_match(fma1::kNormLanes, true, false));
}

// Error of the sum: 17 roundings at k = 4096, far below one ulp each on average; then five more to the result.
TEST(RmsNormCpu, ResultsAreWithinTwoUlpsAndAHalf) {
  NormCase data({.rows = 200, .k = 4096});
  ASSERT_FALSE(reference::rms_norm(data.call()));
  double worst = 0.0;
  for (std::int64_t m = 0; m < 200; ++m) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < 4096; ++i) sum += static_cast<double>(data.x.at(m, i)) * data.x.at(m, i);
    const double inverse = 1.0 / std::sqrt(sum / 4096.0 + static_cast<double>(1e-6F));
    for (std::int64_t i = 0; i < 4096; ++i) {
      const double exact = data.weight[static_cast<std::size_t>(i)] * inverse * data.x.at(m, i);
      worst = std::max(worst, std::abs(data.y.at(m, i) - exact) / (std::abs(exact) * 0x1p-23));
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LT(worst, 2.5);
  EXPECT_GT(worst, 0.5);
}

}  // namespace
}  // namespace reprofuse
