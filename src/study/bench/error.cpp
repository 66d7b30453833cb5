#include "study/bench/error.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "checkpoint/config.hpp"
#include "kernels/reference/reference.hpp"
#include "model/runner.hpp"
#include "numerics/double_math.hpp"
#include "numerics/float_ops.hpp"
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
  const model::Model model(context, std::move(source), length);
  const std::int64_t pages = (length + model::kDefaultPageSize - 1) / model::kDefaultPageSize;
  model::KvCache cache(context, model.config(), pages);
  model::Runner runner(model, cache, {.rows = length, .sequences = 1, .logit_rows = length});
  model::Sequence sequence(cache);
  invariant(sequence.reserve(length), "the cache of a captured pass is too small");
  std::vector<LinearInput> inputs;
  const model::Projection* last = nullptr;
  runner.observe([&](const model::OpResult& result) {
    if (result.projection == std::exchange(last, result.projection) || last == nullptr) return;  // not its first result
    inputs.push_back({.tensors = last->tensors,
                      .rows = result.x.rows,
                      .cols = result.x.cols,
                      .values = copy_to_host(context, result.x)});
  });
  const model::TokenChunk chunk{&sequence, tokens, model::Logits::kAll};
  runner.run({&chunk, 1});
  return inputs;
}

namespace {

constexpr std::int64_t kErrorRows = 32;
constexpr std::int64_t kErrorColumns = 64;
constexpr std::uint64_t kErrorSeed = 1;  // of the activations; the next is that of the weights

// Knuth's two-sum: what the addition rounds away is added up beside it.
class CompensatedSum {
 public:
  void add(double term) {
    const double sum = sum_ + term;
    const double of_term = sum - sum_;
    lost_ += (sum_ - (sum - of_term)) + (term - of_term);
    sum_ = sum;
  }
  double value() const { return sum_ + lost_; }

 private:
  double sum_ = 0;
  double lost_ = 0;
};

double exact_dot(const float* x, std::span<const double> weight) {
  CompensatedSum sum;
  for (std::size_t k = 0; k < weight.size(); ++k) sum.add(static_cast<double>(x[k]) * weight[k]);
  return sum.value();
}

// Runs every numerics over one pair of operands.
void add_errors(std::span<const PrepareLinear> numerics, ConstMatrix x, const WeightView& weight, ThreadPool& pool,
                std::span<ErrorSum> sums) {
  const std::vector<double> exact = exact_linear(x, weight, pool);
  std::vector<float> y(exact.size());
  for (std::size_t i = 0; i < numerics.size(); ++i) {
    numerics[i](weight, x.rows)->run(x, nullptr, {y.data(), x.rows, weight.n, weight.n});
    sums[i].add(y, exact, weight.n);
  }
}

std::vector<RelativeError> errors_of(std::span<const ErrorSum> sums) {
  std::vector<RelativeError> errors;
  for (const ErrorSum& sum : sums) errors.push_back(sum.error());
  return errors;
}

// "model.layers.3.self_attn.q_proj.weight" is a "q_proj". What multiplies by the embedding is a tied head.
std::string kind_of(std::string_view tensor) {
  if (tensor == checkpoint::kEmbeddingName) return "lm_head";
  const std::string_view stem = tensor.substr(0, tensor.rfind('.'));
  return std::string(stem.substr(stem.rfind('.') + 1));
}

// The errors of one kind of projection so far.
struct KindSums {
  ErrorRow row;
  std::vector<ErrorSum> sums;
};

}  // namespace

std::vector<double> exact_linear(ConstMatrix x, const WeightView& weight, ThreadPool& pool) {
  std::vector<double> exact(static_cast<std::size_t>(x.rows * weight.n));
  pool.parallel_for(weight.n, [&](std::int64_t n, int) {
    const FpEnvironment pinned;
    std::vector<double> widened;
    for (std::int64_t k = 0; k < weight.k; ++k) widened.push_back(reference::widened(weight, n, k));
    for (std::int64_t m = 0; m < x.rows; ++m)
      exact[static_cast<std::size_t>(m * weight.n + n)] = exact_dot(x.data + m * x.stride, widened);
  });
  return exact;
}

void ErrorSum::add(std::span<const float> y, std::span<const double> exact, std::int64_t columns) {
  const FpEnvironment pinned;
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t row = 0; row < y.size(); row += width) {
    double error = 0;
    double square = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      const double difference = static_cast<double>(y[i]) - exact[i];
      error += difference * difference;
      square += exact[i] * exact[i];
    }
    error_ += error;
    exact_ += square;
    if (square > 0) worst_ratio_ = std::max(worst_ratio_, error / square);
  }
}

RelativeError ErrorSum::error() const {
  return {.rms = exact_ > 0 ? std::sqrt(error_ / exact_) : 0, .worst_row = std::sqrt(worst_ratio_)};
}

void bench_seeded_errors(std::span<const PrepareLinear> numerics, std::span<const std::int64_t> ks, ThreadPool& pool,
                         const OnErrorRow& report) {
  for (const std::int64_t k : ks) {
    for (const ErrorOperands& operands : kErrorOperands) {
      const std::vector<float> x = spread_activations(operands.activations, kErrorSeed, kErrorRows, k);
      const Weights weights = spread_weights(operands.weights, kErrorSeed + 1, kErrorColumns, k);
      std::vector<ErrorSum> sums(numerics.size());
      add_errors(numerics, {x.data(), kErrorRows, k, k}, weights.view(), pool, sums);
      report({.activations = std::string(spread_name(operands.activations)),
              .weights = std::string(spread_name(operands.weights)),
              .k = k,
              .outputs = kErrorRows * kErrorColumns,
              .errors = errors_of(sums)});
    }
  }
}

void bench_model_errors(std::span<const PrepareLinear> numerics, const model::WeightSource& source,
                        std::span<const LinearInput> inputs, ThreadPool& pool, const OnErrorRow& report) {
  std::vector<KindSums> kinds;
  for (const LinearInput& input : inputs) {
    for (const std::string& tensor : input.tensors) {
      const std::string kind = kind_of(tensor);
      auto found = std::find_if(kinds.begin(), kinds.end(), [&](const KindSums& k) { return k.row.weights == kind; });
      if (found == kinds.end())
        found = kinds.insert(
            kinds.end(),
            {.row = {.activations = "its inputs", .weights = kind, .k = input.cols, .outputs = 0, .errors = {}},
             .sums = std::vector<ErrorSum>(numerics.size())});
      const checkpoint::TensorView view = source.tensor(tensor);
      const checkpoint::HostTensor host(view);
      const std::int64_t n = view.shape[0];
      add_errors(numerics, input.view(), {host.data(), view.dtype, n, input.cols, input.cols}, pool, found->sums);
      found->row.outputs += input.rows * n;
    }
  }
  for (KindSums& kind : kinds) {
    kind.row.errors = errors_of(kind.sums);
    report(kind.row);
  }
}

void require_runs(const Context& context) {
  constexpr std::int64_t kSize = 16;
  const Weights weights = spread_weights(WeightSpread::kGaussian, kErrorSeed, kSize, kSize);
  const std::vector<float> x = spread_activations(ActivationSpread::kGaussian, kErrorSeed, 1, kSize);
  std::vector<float> y(kSize);
  kernels_of(context)(weights.view(), 1)->run({x.data(), 1, kSize, kSize}, nullptr, {y.data(), 1, kSize, kSize});
}

}  // namespace reprofuse::study
