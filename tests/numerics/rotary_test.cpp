#include "numerics/rotary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "reprofuse/error.hpp"

namespace reprofuse {
namespace {

RotaryConfig plain(double theta) {
  RotaryConfig config;
  config.theta = theta;
  return config;
}
RotaryConfig linear(double factor) {
  RotaryConfig config;
  config.kind = RotaryKind::kLinear;
  config.factor = factor;
  return config;
}
RotaryConfig llama3() {
  RotaryConfig config = plain(500'000.0);
  config.kind = RotaryKind::kLlama3;
  config.factor = 8.0;
  config.original_max_positions = 8192;
  config.low_freq_factor = 1.0;
  config.high_freq_factor = 4.0;
  return config;
}
RotaryConfig yarn() {
  RotaryConfig config = plain(1'000'000.0);
  config.kind = RotaryKind::kYarn;
  config.factor = 4.0;
  config.original_max_positions = 32'768;
  return config;
}

// The formulas of the model families once more, by libm and in long double.
using Formula = long double (*)(long double frequency, long double i);

void expect_frequencies(const RotaryConfig& config, std::int64_t head_dim, Formula formula) {
  const std::vector<float> frequencies = rotary_inverse_frequencies(config, head_dim);
  ASSERT_EQ(frequencies.size(), static_cast<std::size_t>(head_dim / 2));
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const long double frequency =
        std::pow(static_cast<long double>(config.theta), -2.0L * static_cast<long double>(i) / head_dim);
    EXPECT_EQ(frequencies[static_cast<std::size_t>(i)], static_cast<float>(formula(frequency, i))) << i;
  }
}

TEST(Rotary, PlainFrequencies) {
  const Formula unchanged = [](long double f, long double) { return f; };
  expect_frequencies(plain(10'000.0), 64, unchanged);
  expect_frequencies(plain(500'000.0), 128, unchanged);
  expect_frequencies(plain(1'000'000.0), 96, unchanged);
}

TEST(Rotary, LinearScalingDividesEveryFrequency) {
  expect_frequencies(linear(2.5), 80, [](long double f, long double) { return f / 2.5L; });
}

TEST(Rotary, Llama3KeepsShortWavelengthsAndDividesLongOnes) {
  expect_frequencies(llama3(), 128, [](long double f, long double) {
    const long double wavelength = 2 * std::numbers::pi_v<long double> / f;
    if (wavelength < 8192 / 4.0L) return f;
    if (wavelength > 8192) return f / 8;
    const long double smooth = (8192 / wavelength - 1) / (4.0L - 1);
    return (1 - smooth) * f / 8 + smooth * f;
  });
}

// For theta 1e6, head_dim 128 and 32768 positions the ramp goes from dimension 23 to dimension 40.
TEST(Rotary, YarnRampsBetweenWholeDimensions) {
  expect_frequencies(yarn(), 128, [](long double f, long double i) {
    const long double divided = std::clamp((i - 23) / (40 - 23), 0.0L, 1.0L);
    return f / 4 * divided + f * (1 - divided);
  });
  RotaryConfig long_ramp = yarn();  // from dimension 17 to 66, which is beyond the last one
  long_ramp.theta = 10'000.0;
  long_ramp.original_max_positions = 1'000'000'000;
  long_ramp.beta_fast = 1e6;
  expect_frequencies(long_ramp, 64, [](long double f, long double i) {
    const long double divided = std::clamp((i - 17) / (63 - 17), 0.0L, 1.0L);
    return f / 4 * divided + f * (1 - divided);
  });
}

TEST(Rotary, YarnWithoutTruncationRampsBetweenFractions) {
  RotaryConfig config = yarn();
  config.truncate = false;
  expect_frequencies(config, 128, [](long double f, long double i) {
    const auto dimension = [](long double rotations) {
      return 128 * std::log(32'768 / (rotations * 2 * std::numbers::pi_v<long double>)) / (2 * std::log(1e6L));
    };
    const long double low = dimension(32), high = dimension(1);
    const long double divided = std::clamp((i - low) / (high - low), 0.0L, 1.0L);
    return f / 4 * divided + f * (1 - divided);
  });
}

TEST(Rotary, AttentionFactor) {
  EXPECT_EQ(rotary_attention_factor({}), 1.0);
  EXPECT_EQ(rotary_attention_factor(llama3()), 1.0);
  RotaryConfig config = yarn();
  EXPECT_DOUBLE_EQ(rotary_attention_factor(config), 0.1 * std::log(4.0) + 1.0);
  config.mscale = 0.707;
  EXPECT_DOUBLE_EQ(rotary_attention_factor(config), 0.1 * std::log(4.0) + 1.0);  // both or neither
  config.mscale_all_dim = 1.5;
  EXPECT_DOUBLE_EQ(rotary_attention_factor(config),
                   (0.1 * 0.707 * std::log(4.0) + 1.0) / (0.1 * 1.5 * std::log(4.0) + 1.0));
  config.attention_factor = 1.25;
  EXPECT_EQ(rotary_attention_factor(config), 1.25);
  config.attention_factor.reset();
  config.factor = 1.0;
  EXPECT_EQ(rotary_attention_factor(config), 1.0);
}

TEST(Rotary, TableIsTheRoundedCosineOfTheRoundedAngle) {
  RotaryConfig config = yarn();
  config.attention_factor = 1.5;
  constexpr std::size_t kPositions = 50;  // angles of the first three are exact
  const std::vector<float> frequencies = rotary_inverse_frequencies(config, 6);
  const RotaryTable table = rotary_table(config, 6, kPositions);
  ASSERT_EQ(table.cos.size(), kPositions * 3);
  for (std::size_t position = 0; position < kPositions; ++position)
    for (std::size_t i = 0; i < 3; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      EXPECT_EQ(table.cos[position * 3 + i], static_cast<float>(1.5 * std::cos(static_cast<double>(angle))));
      EXPECT_EQ(table.sin[position * 3 + i], static_cast<float>(1.5 * std::sin(static_cast<double>(angle))));
    }
}

TEST(Rotary, TheLastPositionIsWithinReachOfTheSine) {
  const RotaryTable table = rotary_table({}, 2, kMaxRotaryPositions);
  EXPECT_EQ(table.cos.back(), static_cast<float>(std::cos(static_cast<double>(kMaxRotaryPositions - 1))));
  EXPECT_THROW(rotary_table({}, 2, kMaxRotaryPositions + 1), Error);
}

std::string message_of(const RotaryConfig& config, std::int64_t head_dim) {
  try {
    rotary_inverse_frequencies(config, head_dim);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Rotary, ValuesOutsideTheirRangeAreNamed) {
  EXPECT_NE(message_of({}, 63).find("head_dim = 63"), std::string::npos);
  EXPECT_NE(message_of(plain(1.0), 64).find("theta = 1"), std::string::npos);
  EXPECT_NE(message_of(plain(NAN), 64).find("theta = nan"), std::string::npos);
  RotaryConfig config = llama3();
  config.factor = 0.5;
  EXPECT_NE(message_of(config, 64).find("factor = 0.5"), std::string::npos);
  config = llama3();
  config.high_freq_factor = 1.0;
  EXPECT_NE(message_of(config, 64).find("high_freq_factor = 1"), std::string::npos);
  config = yarn();
  config.original_max_positions = 0;
  EXPECT_NE(message_of(config, 64).find("original_max_position_embeddings = 0"), std::string::npos);
  config = yarn();
  config.beta_slow = 64.0;
  EXPECT_NE(message_of(config, 64).find("beta_slow = 64"), std::string::npos);
}

}  // namespace
}  // namespace reprofuse
