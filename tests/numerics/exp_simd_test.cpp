#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/hash.hpp"
#include "numerics/exp_log.hpp"
#include "numerics/exp_targets.hpp"
#include "numerics/float_sets.hpp"

namespace reprofuse {
namespace {

// The constants of exp_f32, for one of them to be moved.
struct Constants {
  float log2_e = exp_constants::kLog2E, ln2_high = exp_constants::kLn2High;
  float c2 = exp_constants::kC2, c3 = exp_constants::kC3, c4 = exp_constants::kC4;
  float c5 = exp_constants::kC5, c6 = exp_constants::kC6;
};

float exp_with(const Constants& c, float x) {
  using namespace exp_constants;
  const float shift = x < 0.0F ? kShiftNegative : kShiftPositive;
  const float unraise = x < 0.0F ? kUnraiseNegative : kUnraisePositive;
  const float shifted = fma_rn(x, c.log2_e, shift);
  const float n = shifted - shift;
  const float r = fma_rn(n, -kLn2Low, fma_rn(n, -c.ln2_high, x));
  float p = fma_rn(c.c6, r, c.c5);
  for (const float coefficient : {c.c4, c.c3, c.c2, 1.0F, 1.0F}) p = fma_rn(p, r, coefficient);
  return p * float_from_bits(float_bits(shifted) << 23) * unraise;
}

// Inputs whose result tells that a constant is one ulp nearer to zero, or farther from it. Of 70 million floats between
// -104 and -0.3, 28 tell it of c6 and 9 of log2 e. None tells it of the low part of ln 2.
struct TellingInput {
  float Constants::*constant;
  int ulps;
  float negative, positive;
};
constexpr TellingInput kTelling[] = {
    {&Constants::log2_e, -1, -0x1.2e3652p+5F, 0x1.62e432p-2F},
    {&Constants::log2_e, 1, -0x1.419ecap+3F, 0x1.4cb5ecp+2F},
    {&Constants::ln2_high, -1, -0x1.62e432p-2F, 0x1.62e434p-2F},
    {&Constants::ln2_high, 1, -0x1.62e434p-2F, 0x1.62e432p-2F},
    {&Constants::c2, -1, -0x1.333368p-2F, 0x1.33336ap-2F},
    {&Constants::c2, 1, -0x1.333352p-2F, 0x1.333334p-2F},
    {&Constants::c3, -1, -0x1.3334ecp-2F, 0x1.3333b6p-2F},
    {&Constants::c3, 1, -0x1.33338ep-2F, 0x1.33346ep-2F},
    {&Constants::c4, -1, -0x1.33422cp-2F, 0x1.333a26p-2F},
    {&Constants::c4, 1, -0x1.3336dep-2F, 0x1.3337e6p-2F},
    {&Constants::c5, -1, -0x1.334906p-2F, 0x1.34737ap-2F},
    {&Constants::c5, 1, -0x1.3376b8p-2F, 0x1.354b4ep-2F},
    {&Constants::c6, -1, -0x1.3b3352p-2F, 0x1.40b4p-2F},
    {&Constants::c6, 1, -0x1.41614ep-2F, 0x1.3d6dacp-2F},
};

// All of binary32 thinly, the range of one reduced argument densely, and the places where one ulp matters.
std::vector<float> inputs() {
  std::vector<float> values = testing::floats_by_word(1021);
  for (const float x : testing::exp_edges()) values.push_back(x);
  for (std::uint32_t word = float_bits(-0.34F); word < float_bits(-1.05F); word += 7)
    values.push_back(float_from_bits(word));
  for (const TellingInput& telling : kTelling) {
    values.push_back(telling.negative);
    values.push_back(telling.positive);
  }
  values.resize((values.size() + 15) / 16 * 16);
  return values;
}

// A NaN has no bits of its own: any NaN will do.
bool same(float a, float b) {
  return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b));
}

TEST(ExpSimd, EachConstantOneUlpOffShowsInTheInputs) {
  std::vector<float> results;
  for (const TellingInput& telling : kTelling) {
    Constants altered;
    float& constant = altered.*telling.constant;
    constant = float_from_bits(float_bits(constant) + static_cast<std::uint32_t>(telling.ulps));
    for (const float x : {telling.negative, telling.positive}) {
      EXPECT_EQ(float_bits(exp_with({}, x)), float_bits(exp_f32(x))) << x;
      EXPECT_NE(float_bits(exp_with(altered, x)), float_bits(exp_f32(x))) << x << " and " << constant;
      results.push_back(exp_f32(x));
    }
  }
  const auto count = static_cast<std::int64_t>(results.size());
  EXPECT_EQ(sha256_hex({results.data(), 1, count, count}),
            "fcce305c7ecf0bfc7022a940cbb469b4a7116b0a493449172d793a0ab7373f54");
}

TEST(ExpSimd, EveryInstructionSetHasTheScalarBits) {
  const std::vector<float> x = inputs();
  std::vector<float> full(x.size()), nonpositive(x.size()), expected(x.size()), expected_nonpositive(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected[i] = exp_f32(x[i]);
    if (!(x[i] > 0.0F)) expected_nonpositive[i] = exp_nonpositive_f32(x[i]);
  }
  int compared = 0;
  for (const Isa isa : supported_isas()) {
    const testing::ExpTarget* target = testing::exp_target(isa);
    if (target == nullptr) continue;
    target->exp(x.data(), x.size(), full.data());
    target->exp_nonpositive(x.data(), x.size(), nonpositive.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same(full[i], expected[i])) << isa_name(isa) << " " << x[i];
      if (x[i] > 0.0F) continue;
      ASSERT_TRUE(same(nonpositive[i], expected_nonpositive[i])) << isa_name(isa) << " " << x[i];
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "this machine has no vectors with a fused multiply-add";
}

}  // namespace
}  // namespace reprofuse
