#include "study/bench/error_operands.hpp"

#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "model/runner.hpp"
#include "numerics/double_math.hpp"
#include "numerics/widen.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kE = 2.71828182845904523536;
constexpr std::int64_t kOutlierPeriod = 97;
constexpr double kOutlierFactor = 100;
constexpr double kMassiveSigma = 1000;
constexpr double kMassiveJitter = 50;  // so that its significand is full
constexpr double kWeightSigma = 0.02;

std::int64_t massive_feature(std::int64_t features) {
  return features / 3;
}

// Box and Muller's cosine branch: 32 bits for the radius, 32 for the angle; at most 6.8 sigma.
double gaussian(std::uint64_t seed, std::int64_t index) {
  const std::uint64_t word = random_word(seed, static_cast<std::uint64_t>(index));
  const double u = (static_cast<double>(word >> 32) + 0.5) * 0x1p-32;
  const double turn = static_cast<double>(word & 0xffffffffU) * 0x1p-32;
  return std::sqrt(-2.0 * log_f64(u)) * sincos_f64(2.0 * kPi * turn).cos;
}

// exp of a Gaussian has a mean square of e^2.
double log_normal(std::uint64_t seed, std::int64_t index) {
  const double magnitude = exp_f64(gaussian(seed, index)) / kE;
  const std::uint64_t sign = random_word(~seed, static_cast<std::uint64_t>(index)) & 1;
  return sign == 0 ? magnitude : -magnitude;
}

double activation_value(ActivationSpread spread, std::uint64_t seed, std::int64_t index, std::int64_t cols) {
  switch (spread) {
    case ActivationSpread::kGaussian: return gaussian(seed, index);
    case ActivationSpread::kHeavyTailed: return log_normal(seed, index);
    case ActivationSpread::kOutliers:
      return gaussian(seed, index) * (index % cols % kOutlierPeriod == 0 ? kOutlierFactor : 1.0);
    case ActivationSpread::kMassive:
      if (index % cols == massive_feature(cols)) return kMassiveSigma + kMassiveJitter * gaussian(seed, index);
      return gaussian(seed, index);
  }
  invariant(false, "an activation spread that does not exist");
  return 0;
}

double weight_value(WeightSpread spread, std::uint64_t seed, std::int64_t index, std::int64_t k) {
  if (spread == WeightSpread::kHeavyTailed) return kWeightSigma * log_normal(seed, index);
  if (spread == WeightSpread::kBlind && index % k == massive_feature(k)) return 0;
  return kWeightSigma * gaussian(seed, index);
}

}  // namespace

std::string_view spread_name(ActivationSpread spread) {
  switch (spread) {
    case ActivationSpread::kGaussian: return "Gaussian";
    case ActivationSpread::kHeavyTailed: return "heavy-tailed";
    case ActivationSpread::kOutliers: return "every 97th x 100";
    case ActivationSpread::kMassive: return "one of 1000 sigma";
  }
  return {};
}

std::string_view spread_name(WeightSpread spread) {
  switch (spread) {
    case WeightSpread::kGaussian: return "Gaussian";
    case WeightSpread::kHeavyTailed: return "heavy-tailed";
    case WeightSpread::kBlind: return "Gaussian, 0 there";
  }
  return {};
}

std::vector<float> spread_activations(ActivationSpread spread, std::uint64_t seed, std::int64_t rows,
                                      std::int64_t cols) {
  const FpEnvironment pinned;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows * cols; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<float>(activation_value(spread, seed, i, cols));
  return values;
}

Weights spread_weights(WeightSpread spread, std::uint64_t seed, std::int64_t n, std::int64_t k) {
  const FpEnvironment pinned;
  constexpr DType kDType = DType::kBF16;
  Weights weights{kDType, n, k, std::vector<std::byte>(static_cast<std::size_t>(n * k) * dtype_bytes(kDType))};
  for (std::int64_t i = 0; i < n * k; ++i)
    store_weight(weights.storage.data(), kDType, i, round_bf16(static_cast<float>(weight_value(spread, seed, i, k))));
  return weights;
}

std::vector<LinearInput> capture_linear_inputs(const Context& context,
                                               std::shared_ptr<const model::WeightSource> source,
                                               std::span<const std::int32_t> tokens) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  model::Model model(context, std::move(source), length);
  std::vector<LinearInput> inputs;
  model.observe_linear([&](const model::Projection& projection, ConstMatrix x) {
    LinearInput input{.tensors = projection.tensors, .rows = x.rows, .cols = x.cols, .values = {}};
    for (std::int64_t row = 0; row < x.rows; ++row)
      input.values.insert(input.values.end(), x.data + row * x.stride, x.data + row * x.stride + x.cols);
    inputs.push_back(std::move(input));
  });
  const std::int64_t pages = (length + model::kDefaultPageSize - 1) / model::kDefaultPageSize;
  model::KvCache cache(context, model.config(), pages);
  model::Runner runner(model, cache, {.rows = length, .sequences = 1, .logit_rows = length});
  model::Sequence sequence(cache);
  invariant(sequence.reserve(length), "the cache of a captured pass is too small");
  const model::TokenChunk chunk{&sequence, tokens, model::Logits::kAll};
  runner.run({&chunk, 1});
  return inputs;
}

}  // namespace reprofuse::study
