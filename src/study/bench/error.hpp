// How far each numerics is from exact sums, and its attention from binary64.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "model/weights.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"
#include "study/probe/probe.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {

// What errors are measured on: seeded operands distributed as those of language models are, and a model's own. The
// seeded ones come from IEEE operations and our own elementary functions alone: every machine makes the same bits.
enum class ActivationSpread {
  kGaussian,
  kHeavyTailed,  // log-normal magnitudes of sigma 1, even signs
  kOutliers,     // Gaussian, every 97th a hundred times larger
  kMassive,      // Gaussian, but one feature near 1000 sigma in every row, as deep models have it
};

enum class WeightSpread {
  kGaussian,
  kHeavyTailed,
  kBlind,  // Gaussian, but 0 for the feature that kMassive makes massive
};

struct ErrorOperands {
  ActivationSpread activations;
  WeightSpread weights;
};

// The last is the worst that rows of one exponent can meet: what sets the exponent adds nothing to the result.
inline constexpr std::array kErrorOperands = {
    ErrorOperands{ActivationSpread::kGaussian, WeightSpread::kGaussian},
    ErrorOperands{ActivationSpread::kGaussian, WeightSpread::kHeavyTailed},
    ErrorOperands{ActivationSpread::kHeavyTailed, WeightSpread::kGaussian},
    ErrorOperands{ActivationSpread::kHeavyTailed, WeightSpread::kHeavyTailed},
    ErrorOperands{ActivationSpread::kOutliers, WeightSpread::kGaussian},
    ErrorOperands{ActivationSpread::kOutliers, WeightSpread::kHeavyTailed},
    ErrorOperands{ActivationSpread::kMassive, WeightSpread::kGaussian},
    ErrorOperands{ActivationSpread::kMassive, WeightSpread::kHeavyTailed},
    ErrorOperands{ActivationSpread::kMassive, WeightSpread::kBlind},
};

std::string_view spread_name(ActivationSpread spread);
std::string_view spread_name(WeightSpread spread);

// [rows, cols], of standard deviation 1 but for what the spread adds.
std::vector<float> spread_activations(ActivationSpread spread, std::uint64_t seed, std::int64_t rows,
                                      std::int64_t cols);

// BF16, of standard deviation 1/50.
Weights spread_weights(WeightSpread spread, std::uint64_t seed, std::int64_t n, std::int64_t k);

// An input of a model's linear layers, captured during a pass over a text.
struct LinearInput {
  std::vector<std::string> tensors;  // the weights that are multiplied with it, as the source names them
  std::int64_t rows;                 // tokens
  std::int64_t cols;
  std::vector<float> values;  // [rows, cols]

  ConstMatrix view() const { return {.data = values.data(), .rows = rows, .cols = cols, .stride = cols}; }
};

// One pass over all tokens, in the order in which the layers run, the head over every token last. The context is a
// CPU's; by a contract the values are a function of the model and the tokens alone.
std::vector<LinearInput> capture_linear_inputs(const Context& context,
                                               std::shared_ptr<const model::WeightSource> source,
                                               std::span<const std::int32_t> tokens);

// [x.rows, weight.n] of x times the transposed weight. Products are exact in binary64 and sums are compensated, so that
// each result is rounded once, unless nearly all of its terms cancel.
std::vector<double> exact_linear(ConstMatrix x, const WeightView& weight, ThreadPool& pool);

struct RelativeError {
  double rms;        // sqrt(sum (y - exact)^2 / sum exact^2) over all outputs
  double worst_row;  // the same over the outputs of one row of activations, for the worst row
};

// Adds up errors over any number of matrices.
class ErrorSum {
 public:
  void add(std::span<const float> y, std::span<const double> exact, std::int64_t columns);
  RelativeError error() const;

 private:
  double error_ = 0;  // sums of squares
  double exact_ = 0;
  double worst_ratio_ = 0;
};

struct ErrorRow {
  std::string activations;
  std::string weights;
  std::int64_t k;
  std::int64_t outputs;
  std::vector<RelativeError> errors;  // in the order of the numerics
};
using OnErrorRow = std::function<void(const ErrorRow&)>;

// Every pair of kErrorOperands at every k: 32 rows of activations times 64 of weights. One row each,
// reported as soon as it is known. `pool` computes the exact sums.
void bench_seeded_errors(std::span<const PrepareLinear> numerics, std::span<const std::int64_t> ks, ThreadPool& pool,
                         const OnErrorRow& report);

// A model's own activations and weights, without biases: one row per kind of projection, over all layers.
void bench_model_errors(std::span<const PrepareLinear> numerics, const model::WeightSource& source,
                        std::span<const LinearInput> inputs, ThreadPool& pool, const OnErrorRow& report);

// Throws what keeps the context's numerics from computing at all, such as a vendor's library that is not there.
void require_runs(const Context& context);

// How far the attention of each numerics is from binary64.

// Seeded queries, keys and values of one head of 128: what they stand for, and how many keys.
struct AttentionOperands {
  std::string name;
  std::int64_t keys;
};

struct AttentionErrorRow {
  AttentionOperands operands;
  double bf16;                        // queries, keys, values and probabilities rounded to BF16, sums exact
  std::vector<RelativeError> errors;  // in the order of the contexts; a row is a query
};
using OnAttentionErrorRow = std::function<void(const AttentionErrorRow&)>;

// 16 queries each. The contexts' memory is the host's.
void bench_attention_errors(std::span<const Context> contexts, const OnAttentionErrorRow& report);

}  // namespace reprofuse::study
