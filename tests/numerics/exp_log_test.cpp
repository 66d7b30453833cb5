#include "numerics/exp_log.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/hash.hpp"
#include "numerics/double_math.hpp"
#include "numerics/float_sets.hpp"

namespace reprofuse {
namespace {

constexpr std::uint32_t kStep = 4099;

// In units of the last place that a correctly rounded result would have.
double ulps(double exact, float got) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

std::string digest(const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return sha256_hex({values.data(), 1, count, count});
}

TEST(Exp, IsLessThanOneUlpOff) {
  double worst = 0;
  for (const float x : testing::floats_by_word(kStep)) {
    if (!(x >= exp_constants::kMin && x <= exp_constants::kMax)) continue;
    worst = std::max(worst, ulps(exp_f64(static_cast<double>(x)), exp_f32(x)));
  }
  EXPECT_LT(worst, 0.9);
  EXPECT_GT(worst, 0.5);  // nothing is better than a correct rounding, so less would mean that nothing was compared
}

TEST(Exp, EndsOfTheRange) {
  EXPECT_EQ(exp_f32(0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-103.97F), 0x1p-149F);
  for (const float x : {-103.98F, -104.0F, -105.0F, -FLT_MAX, -INFINITY}) {
    EXPECT_EQ(float_bits(exp_f32(x)), 0U) << x;
    EXPECT_EQ(float_bits(exp_nonpositive_f32(x)), 0U) << x;
  }
  for (const float x : {exp_constants::kMax, 89.0F, FLT_MAX, INFINITY}) EXPECT_EQ(exp_f32(x), 0x1.ffff08p+127F) << x;
  EXPECT_TRUE(std::isnan(exp_f32(NAN)));
  EXPECT_TRUE(std::isnan(exp_f32(-NAN)));
  EXPECT_TRUE(std::isnan(exp_nonpositive_f32(NAN)));
  EXPECT_TRUE(std::isnan(exp_nonpositive_f32(-NAN)));
}

TEST(Exp, TheShortFormHasTheSameBitsAndStaysWithinZeroAndOne) {
  std::vector<float> inputs = testing::floats_by_word(kStep);
  for (const float x : testing::exp_edges()) inputs.push_back(x);
  for (const float x : inputs) {
    if (!(x <= 0.0F)) continue;
    const float value = exp_nonpositive_f32(x);
    ASSERT_EQ(float_bits(value), float_bits(exp_f32(x))) << x;
    ASSERT_TRUE(value >= 0.0F && value <= 1.0F) << x;
  }
}

// The same polynomial with a product that is rounded before it is added.
float exp_unfused(float x) {
  using namespace exp_constants;
  const float shifted = x * kLog2E + kShiftNegative;
  const float n = shifted - kShiftNegative;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  const float p = ((((((kC6 * r + kC5) * r + kC4) * r + kC3) * r + kC2) * r + 1.0F) * r) + 1.0F;
  return p * float_from_bits(float_bits(shifted) << 23) * kUnraiseNegative;
}

TEST(Exp, BitsAreTheCommittedOnes) {
  std::vector<float> results, unfused;
  for (const float x : testing::floats_by_word(kStep)) {
    if (std::isnan(x)) continue;
    results.push_back(exp_f32(x));
    unfused.push_back(x <= 0.0F && x >= exp_constants::kMin ? exp_unfused(x) : exp_f32(x));
  }
  constexpr const char* kDigest = "2c384e7c2de636bbf55d0413e089f1c14c6ec5c1ef12c756566455a6f04570b7";
  EXPECT_EQ(digest(results), kDigest);
  EXPECT_NE(digest(unfused), kDigest);
}

TEST(Log, IsLessThanOneUlpOff) {
  double worst = 0;
  for (const float x : testing::floats_by_word(kStep)) {
    if (!(x > 0.0F && x <= FLT_MAX) || x == 1.0F) continue;
    worst = std::max(worst, ulps(log_f64(static_cast<double>(x)), log_f32(x)));
  }
  for (std::uint32_t offset = 1; offset < 100'000; ++offset)
    for (const float x : {float_from_bits(float_bits(1.0F) + offset), float_from_bits(float_bits(1.0F) - offset)})
      worst = std::max(worst, ulps(log_f64(static_cast<double>(x)), log_f32(x)));
  EXPECT_LT(worst, 0.95);
  EXPECT_GT(worst, 0.5);
}

TEST(Log, SpecialPlaces) {
  EXPECT_EQ(float_bits(log_f32(1.0F)), 0U);
  EXPECT_EQ(log_f32(0x1p-149F), static_cast<float>(log_f64(0x1p-149)));
  EXPECT_EQ(log_f32(FLT_MAX), static_cast<float>(log_f64(static_cast<double>(FLT_MAX))));
  EXPECT_EQ(log_f32(2.0F), 0x1.62e43p-1F);
}

TEST(Log, BitsAreTheCommittedOnes) {
  std::vector<float> results;
  for (const float x : testing::floats_by_word(kStep))
    if (x > 0.0F && x <= FLT_MAX) results.push_back(log_f32(x));
  EXPECT_EQ(digest(results), "b1e3467a1e98c16c373cf17976b8d96bac6bf157d9fff120b869af59ebfdd5a3");
}

// Inputs whose result tells that a coefficient is one ulp off, down and up in turn: 6 of 59 million tell it of c10.
TEST(Log, BitsThatTellEachCoefficientOneUlpOffAreTheCommittedOnes) {
  std::vector<float> results;
  for (const float x :
       {0x1.022328p-1F, 0x1.02345ap-1F, 0x1.045816p-1F, 0x1.0c142cp-1F, 0x1.102b68p-1F, 0x1.152dbp-1F,    // c2, c3, c4
        0x1.1d098p-1F, 0x1.1d9f92p-1F, 0x1.2b2d08p-1F, 0x1.25bd14p-1F, 0x1.31c29cp-1F, 0x1.322b0cp-1F,    // c5, c6, c7
        0x1.46b3e2p-1F, 0x1.422fa8p-1F, 0x1.4df1a8p-1F, 0x1.47dd1ep-1F, 0x1.5b1a56p-1F, 0x1.4e75f4p-1F})  // c8, c9, c10
    results.push_back(log_f32(x));
  EXPECT_EQ(digest(results), "7c266b13ab4236beded08550bc9411d505369ac9fcba9a778a5c6c2f749892eb");
}

}  // namespace
}  // namespace reprofuse
