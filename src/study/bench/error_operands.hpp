// Seeded operands distributed as those of language models are. From IEEE operations and our own elementary functions
// alone, so that every machine makes the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

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

}  // namespace reprofuse::study
