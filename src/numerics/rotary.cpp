#include "numerics/rotary.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "numerics/double_math.hpp"

namespace reprofuse {
namespace {

constexpr double kTwoPi = 0x1.921fb54442d18p+2;

void check(const RotaryConfig& config, std::int64_t head_dim) {
  require(head_dim > 0 && head_dim % 2 == 0, "rotary: head_dim = {} is not a positive even number", head_dim);
  require(config.theta > 1.0 && config.theta <= DBL_MAX, "rotary: theta = {} is not above 1", config.theta);
  if (config.kind == RotaryKind::kPlain) return;
  require(config.factor >= 1.0 && config.factor <= DBL_MAX, "rotary: factor = {} is below 1", config.factor);
  if (config.kind == RotaryKind::kLinear) return;
  require(config.original_max_positions > 0, "rotary: original_max_position_embeddings = {} is not positive",
          config.original_max_positions);
  if (config.kind == RotaryKind::kLlama3) {
    require(config.low_freq_factor > 0.0 && config.high_freq_factor > config.low_freq_factor,
            "rotary: low_freq_factor = {} and high_freq_factor = {} are not 0 < low < high", config.low_freq_factor,
            config.high_freq_factor);
  } else {
    require(config.beta_slow > 0.0 && config.beta_fast >= config.beta_slow,
            "rotary: beta_slow = {} and beta_fast = {} are not 0 < slow <= fast", config.beta_slow, config.beta_fast);
    const double attention_factor = config.attention_factor.value_or(1.0);
    require(attention_factor > 0.0 && attention_factor <= FLT_MAX, "rotary: attention_factor = {} is not positive",
            attention_factor);
  }
}

// Long wavelengths are divided by the factor, short ones kept, and between them a ramp.
double llama3_frequency(const RotaryConfig& config, double frequency) {
  const auto context = static_cast<double>(config.original_max_positions);
  const double wavelength = kTwoPi / frequency;
  if (wavelength < context / config.high_freq_factor) return frequency;
  if (wavelength > context / config.low_freq_factor) return frequency / config.factor;
  const double smooth =
      (context / wavelength - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
  return (1.0 - smooth) * frequency / config.factor + smooth * frequency;
}

// The dimensions between which YaRN goes over from keeping a frequency to dividing it.
struct YarnRamp {
  double low;
  double high;
};

YarnRamp yarn_ramp(const RotaryConfig& config, std::int64_t head_dim) {
  const auto dimension_of = [&](double rotations) {
    const double turns = static_cast<double>(config.original_max_positions) / (rotations * kTwoPi);
    return static_cast<double>(head_dim) * log_f64(turns) / (2.0 * log_f64(config.theta));
  };
  YarnRamp ramp{dimension_of(config.beta_fast), dimension_of(config.beta_slow)};
  if (config.truncate) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp = {std::max(ramp.low, 0.0), std::min(ramp.high, static_cast<double>(head_dim - 1))};
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

double yarn_frequency(const RotaryConfig& config, YarnRamp ramp, std::int64_t i, double frequency) {
  const double divided = std::clamp((static_cast<double>(i) - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
  return frequency / config.factor * divided + frequency * (1.0 - divided);
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * log_f64(factor) + 1.0;
}

}  // namespace

std::vector<float> rotary_inverse_frequencies(const RotaryConfig& config, std::int64_t head_dim) {
  check(config, head_dim);
  const FpEnvironment pinned;
  const YarnRamp ramp = config.kind == RotaryKind::kYarn ? yarn_ramp(config, head_dim) : YarnRamp{};
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double frequency = pow_f64(config.theta, -(static_cast<double>(2 * i) / static_cast<double>(head_dim)));
    if (config.kind == RotaryKind::kLinear) frequency /= config.factor;
    if (config.kind == RotaryKind::kLlama3) frequency = llama3_frequency(config, frequency);
    if (config.kind == RotaryKind::kYarn) frequency = yarn_frequency(config, ramp, i, frequency);
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

double rotary_attention_factor(const RotaryConfig& config) {
  if (config.kind != RotaryKind::kYarn) return 1.0;
  const FpEnvironment pinned;
  if (config.attention_factor) return *config.attention_factor;
  const double mscale = config.mscale.value_or(0.0);
  const double mscale_all_dim = config.mscale_all_dim.value_or(0.0);
  if (mscale != 0.0 && mscale_all_dim != 0.0)
    return yarn_scale(config.factor, mscale) / yarn_scale(config.factor, mscale_all_dim);
  return yarn_scale(config.factor, 1.0);
}

RotaryTable rotary_table(const RotaryConfig& config, std::int64_t head_dim, std::int64_t positions) {
  const std::vector<float> inverse_frequencies = rotary_inverse_frequencies(config, head_dim);
  const double attention_factor = rotary_attention_factor(config);
  require(positions <= kMaxRotaryPositions, "rotary: {} positions; at most {} are possible", positions,
          kMaxRotaryPositions);
  const FpEnvironment pinned;
  RotaryTable table;
  const std::size_t size = static_cast<std::size_t>(std::max<std::int64_t>(positions, 0)) * inverse_frequencies.size();
  table.cos.reserve(size);
  table.sin.reserve(size);
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const float frequency : inverse_frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      const SinCos exact = sincos_f64(static_cast<double>(angle));
      table.cos.push_back(static_cast<float>(exact.cos * attention_factor));
      table.sin.push_back(static_cast<float>(exact.sin * attention_factor));
    }
  }
  return table;
}

}  // namespace reprofuse
