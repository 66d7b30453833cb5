// How far each numerics is from exact sums.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "model/weight_source.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"
#include "study/bench/error_operands.hpp"
#include "study/probe/linear.hpp"

namespace reprofuse::study {

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

// Every pair of operands in error_operands.hpp at every k: 32 rows of activations times 64 of weights. One row each,
// reported as soon as it is known. `pool` computes the exact sums.
void bench_seeded_errors(std::span<const PrepareLinear> numerics, std::span<const std::int64_t> ks, ThreadPool& pool,
                         const OnErrorRow& report);

// A model's own activations and weights, without biases: one row per kind of projection, over all layers.
void bench_model_errors(std::span<const PrepareLinear> numerics, const model::WeightSource& source,
                        std::span<const LinearInput> inputs, ThreadPool& pool, const OnErrorRow& report);

// Throws what keeps the context's numerics from computing at all, such as a vendor's library that is not there.
void require_runs(const Context& context);

}  // namespace reprofuse::study
