// Rotary tables have the digests in golden/rotary.json, by our binary64 functions and by those of libm; and no value in
// them is so close to a tie that a binary64 function with an error of a few ulp would give another one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "numerics/rotary.hpp"

namespace reprofuse {
namespace {

struct GoldenTable {
  RotaryConfig config;
  std::int64_t head_dim;
  std::int64_t positions;
  std::string sha256;
};

std::vector<GoldenTable> golden_tables() {
  const std::map<std::string, RotaryKind> kinds = {{"plain", RotaryKind::kPlain},
                                                   {"linear", RotaryKind::kLinear},
                                                   {"llama3", RotaryKind::kLlama3},
                                                   {"yarn", RotaryKind::kYarn}};
  std::ifstream file(REPROFUSE_GOLDEN_ROTARY);
  std::vector<GoldenTable> tables;
  for (const nlohmann::json& entry : nlohmann::json::parse(file)) {
    RotaryConfig config;
    config.kind = kinds.at(entry.at("kind"));
    config.theta = entry.at("theta");
    config.factor = entry.value("factor", config.factor);
    config.original_max_positions = entry.value("original_max", config.original_max_positions);
    config.low_freq_factor = entry.value("low_freq_factor", config.low_freq_factor);
    config.high_freq_factor = entry.value("high_freq_factor", config.high_freq_factor);
    config.beta_fast = entry.value("beta_fast", config.beta_fast);
    config.beta_slow = entry.value("beta_slow", config.beta_slow);
    config.truncate = entry.value("truncate", config.truncate);
    tables.push_back({config, entry.at("head_dim"), entry.at("positions"), entry.at("sha256")});
  }
  return tables;
}

// The formulas of NUMERICS.md with the functions of libm.
double libm_frequency(const RotaryConfig& c, std::int64_t head_dim, std::int64_t i) {
  constexpr double kTwoPi = 0x1.921fb54442d18p+2;
  const auto d = static_cast<double>(head_dim);
  const auto original_max = static_cast<double>(c.original_max_positions);
  const double g = std::pow(c.theta, -(2.0 * static_cast<double>(i) / d));
  if (c.kind == RotaryKind::kPlain) return g;
  if (c.kind == RotaryKind::kLinear) return g / c.factor;
  if (c.kind == RotaryKind::kLlama3) {
    const double wavelength = kTwoPi / g;
    if (wavelength < original_max / c.high_freq_factor) return g;
    if (wavelength > original_max / c.low_freq_factor) return g / c.factor;
    const double s = (original_max / wavelength - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
    return (1 - s) * g / c.factor + s * g;
  }
  const auto dimension = [&](double rotations) {
    return d * std::log(original_max / (rotations * kTwoPi)) / (2 * std::log(c.theta));
  };
  const double low = std::max(std::floor(dimension(c.beta_fast)), 0.0);
  const double high = std::min(std::ceil(dimension(c.beta_slow)), d - 1);
  const double a = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return g / c.factor * a + g * (1 - a);
}

double libm_attention_factor(const RotaryConfig& c) {
  return c.kind == RotaryKind::kYarn ? 0.1 * std::log(c.factor) + 1 : 1.0;
}

using Angle = double (*)(std::int64_t position, double frequency);
double binary32_angle(std::int64_t position, double frequency) {
  return static_cast<double>(static_cast<float>(position) * static_cast<float>(frequency));
}
double binary64_angle(std::int64_t position, double frequency) {
  return static_cast<double>(position) * frequency;
}

// All cosines, then all sines, before they are rounded to binary32.
std::vector<double> libm_values(const GoldenTable& table, Angle angle) {
  std::vector<double> frequencies, values;
  for (std::int64_t i = 0; i < table.head_dim / 2; ++i)
    frequencies.push_back(libm_frequency(table.config, table.head_dim, i));
  const double factor = libm_attention_factor(table.config);
  using Trigonometric = double (*)(double);
  for (const Trigonometric function : {static_cast<Trigonometric>(std::cos), static_cast<Trigonometric>(std::sin)})
    for (std::int64_t position = 0; position < table.positions; ++position)
      for (const double frequency : frequencies) values.push_back(function(angle(position, frequency)) * factor);
  return values;
}

std::string digest_of(const GoldenTable& table, const std::vector<double>& values) {
  const std::vector<float> rounded(values.begin(), values.end());
  const std::int64_t width = table.head_dim / 2;
  return sha256_hex({rounded.data(), 2 * table.positions, width, width});
}

// How many values a relative error could round to another binary32 number.
std::int64_t values_that_may_move(const std::vector<double>& values, double relative_error) {
  return std::count_if(values.begin(), values.end(), [&](double value) {
    return static_cast<float>(value * (1 - relative_error)) != static_cast<float>(value * (1 + relative_error));
  });
}

TEST(RotaryGolden, TablesHaveTheCommittedDigests) {
  EXPECT_EQ(golden_tables().size(), 4U);
  for (const GoldenTable& table : golden_tables()) {
    const RotaryTable made = rotary_table(table.config, table.head_dim, table.positions);
    std::vector<float> both = made.cos;
    both.insert(both.end(), made.sin.begin(), made.sin.end());
    const std::int64_t width = table.head_dim / 2;
    ASSERT_EQ(both.size(), static_cast<std::size_t>(2 * table.positions * width));
    EXPECT_EQ(sha256_hex({both.data(), 2 * table.positions, width, width}), table.sha256);
  }
}

TEST(RotaryGolden, TheFunctionsOfLibmGiveTheSameTables) {
  for (const GoldenTable& table : golden_tables()) {
    EXPECT_EQ(digest_of(table, libm_values(table, binary32_angle)), table.sha256);
    EXPECT_NE(digest_of(table, libm_values(table, binary64_angle)), table.sha256) << "the angle is binary32";
  }
}

TEST(RotaryGolden, NoFunctionWithinAFewUlpGivesAnotherTable) {
  constexpr double kUlp = 0x1p-52;
  for (const GoldenTable& table : golden_tables()) {
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < table.head_dim / 2; ++i)
      frequencies.push_back(libm_frequency(table.config, table.head_dim, i));
    EXPECT_EQ(values_that_may_move(frequencies, 64 * kUlp), 0);  // pow multiplies the error of log by up to 14
    const std::vector<double> values = libm_values(table, binary32_angle);
    EXPECT_EQ(values_that_may_move(values, 8 * kUlp), 0);
    EXPECT_GT(values_that_may_move(values, 0x1p-30), 0) << "a worse function would show";
  }
}

}  // namespace
}  // namespace reprofuse
