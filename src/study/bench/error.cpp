#include "study/bench/error.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/fp_environment.hpp"
#include "checkpoint/expected_tensors.hpp"
#include "kernels/reference/linear.hpp"
#include "study/bench/error_operands.hpp"

namespace reprofuse::study {
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
