// What errors are measured on: seeded operands distributed as those of language models are, and a model's own. The
// seeded ones come from IEEE operations and our own elementary functions alone: every machine makes the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/weight_source.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/types.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {

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

}  // namespace reprofuse::study
