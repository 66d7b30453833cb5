#include <gtest/gtest.h>

#include <cmath>

#include "numerics/double_math.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/float_sets.hpp"
#include "numerics/rotary.hpp"
#include "numerics/sampling.hpp"
#include "support/mpfr_value.hpp"

namespace reprofuse {
namespace {

using testing::evaluate;
using testing::Exact;
using testing::Function;

constexpr std::uint64_t kSamples = 10'000;

double uniform(std::uint64_t i, std::uint64_t draw) {  // in [-1, 1)
  return static_cast<double>(static_cast<std::int64_t>(philox(11, i, draw))) * 0x1p-63;
}

template <class Input, class Ours>
double worst_f64(Function function, const Input& input, const Ours& ours) {
  Exact exact;
  double worst = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const double x = input(i);
    evaluate(function, x, exact);
    worst = std::max(worst, exact.ulps_f64(ours(x)));
  }
  return worst;
}

void expect_below_one_ulp(double worst) {
  EXPECT_LT(worst, 0.9);
  EXPECT_GT(worst, 0.5);  // less would mean that nothing was compared
}

TEST(AgainstMpfr, DoubleExpIsLessThanOneUlpOff) {
  expect_below_one_ulp(worst_f64(
      mpfr_exp, [](std::uint64_t i) { return uniform(i, 0) * 709.0; }, exp_f64));
  expect_below_one_ulp(worst_f64(
      mpfr_exp, [](std::uint64_t i) { return uniform(i, 1) * 0.5; }, exp_f64));
}

TEST(AgainstMpfr, DoubleLogIsLessThanOneUlpOff) {
  expect_below_one_ulp(worst_f64(
      mpfr_log, [](std::uint64_t i) { return 1.0 + uniform(i, 0) * 0.5; }, log_f64));
  const auto any_exponent = [](std::uint64_t i) {
    return std::ldexp(1.0 + std::abs(uniform(i, 1)), static_cast<int>(i % 2000) - 1060);  // subnormals as well
  };
  expect_below_one_ulp(worst_f64(mpfr_log, any_exponent, log_f64));
}

TEST(AgainstMpfr, DoubleSinAndCosAreLessThanOneUlpOff) {
  const auto sin = [](double x) { return sincos_f64(x).sin; };
  const auto cos = [](double x) { return sincos_f64(x).cos; };
  const auto wide = [](std::uint64_t i) { return uniform(i, 0) * kSinCosLimit; };
  const auto near_zeros = [](std::uint64_t i) {
    return std::nearbyint(uniform(i, 1) * 600'000) * 0x1.921fb54442d18p+0;
  };
  const auto small = [](std::uint64_t i) { return uniform(i, 2) * 0.8; };
  expect_below_one_ulp(worst_f64(mpfr_sin, wide, sin));
  expect_below_one_ulp(worst_f64(mpfr_cos, wide, cos));
  EXPECT_LT(worst_f64(mpfr_sin, near_zeros, sin), 0.9);
  EXPECT_LT(worst_f64(mpfr_cos, near_zeros, cos), 0.9);
  expect_below_one_ulp(worst_f64(mpfr_sin, small, sin));
  expect_below_one_ulp(worst_f64(mpfr_cos, small, cos));
}

TEST(AgainstMpfr, BinaryExpAndLogAreLessThanOneUlpOff) {
  Exact exact;
  double worst_exp = 0, worst_log = 0;
  for (const float x : testing::floats_by_word(40'009)) {
    if (x >= exp_constants::kMin && x <= exp_constants::kMax) {
      evaluate(mpfr_exp, static_cast<double>(x), exact);
      worst_exp = std::max(worst_exp, exact.ulps_f32(exp_f32(x)));
    }
    if (x > 0.0F && x <= FLT_MAX) {
      evaluate(mpfr_log, static_cast<double>(x), exact);
      worst_log = std::max(worst_log, exact.ulps_f32(log_f32(x)));
    }
  }
  EXPECT_LT(worst_exp, 0.892);
  EXPECT_LT(worst_log, 0.946);
}

TEST(AgainstMpfr, RotaryTablesAreCorrectlyRounded) {
  RotaryConfig config;
  config.theta = 500'000.0;
  const std::vector<float> frequencies = rotary_inverse_frequencies(config, 128);
  const RotaryTable table = rotary_table(config, 128, 4096);
  Exact exact;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    // theta^(-2i / d), the exponent a binary fraction here.
    Exact base(500'000.0), exponent(-static_cast<double>(2 * i) / 128.0);
    mpfr_pow(exact.get(), base.get(), exponent.get(), MPFR_RNDN);
    ASSERT_EQ(frequencies[i], exact.to_float()) << i;
  }
  for (std::size_t at = 0; at < table.cos.size(); at += 37) {
    const auto position = static_cast<float>(at / frequencies.size());
    const float angle = position * frequencies[at % frequencies.size()];
    evaluate(mpfr_cos, static_cast<double>(angle), exact);
    ASSERT_EQ(table.cos[at], exact.to_float()) << at;
    evaluate(mpfr_sin, static_cast<double>(angle), exact);
    ASSERT_EQ(table.sin[at], exact.to_float()) << at;
  }
}

}  // namespace
}  // namespace reprofuse
