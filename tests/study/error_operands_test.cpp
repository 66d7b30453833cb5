#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <utility>

#include "kernels/reference/reference.hpp"
#include "study/bench/error.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kOperandRows = 50;
constexpr std::int64_t kOperandCols = 970;
constexpr std::int64_t kMassiveFeature = kOperandCols / 3;

struct Moments {
  double mean;
  double square;
  double kurtosis;
};

Moments moments_of(const std::vector<float>& values) {
  double sum = 0, square = 0, fourth = 0;
  for (const double value : values) {
    sum += value;
    square += value * value;
    fourth += value * value * value * value;
  }
  const auto count = static_cast<double>(values.size());
  return {sum / count, square / count, fourth / count / (square / count * square / count)};
}

TEST(ErrorOperands, TheFirstWordsArePinned) {
  const auto words = [](ActivationSpread spread) {
    const auto x = spread_activations(spread, 1, 1, 2);
    return std::pair(std::bit_cast<std::uint32_t>(x[0]), std::bit_cast<std::uint32_t>(x[1]));
  };
  EXPECT_EQ(words(ActivationSpread::kGaussian), std::pair(0xbf851ff5U, 0xbf1c371fU));
  EXPECT_EQ(words(ActivationSpread::kHeavyTailed), std::pair(0xbe0524f5U, 0xbe4ca404U));
}

TEST(ErrorOperands, GaussianActivationsHaveTheMomentsOfOne) {
  const Moments moments = moments_of(spread_activations(ActivationSpread::kGaussian, 3, kOperandRows, kOperandCols));
  EXPECT_NEAR(moments.mean, 0, 0.02);
  EXPECT_NEAR(moments.square, 1, 0.03);
  EXPECT_NEAR(moments.kurtosis, 3, 0.15);
}

TEST(ErrorOperands, HeavyTailsAreHeavyAndKeepTheirScale) {
  const Moments moments = moments_of(spread_activations(ActivationSpread::kHeavyTailed, 3, kOperandRows, kOperandCols));
  EXPECT_NEAR(moments.mean, 0, 0.02);
  EXPECT_NEAR(moments.square, 1, 0.15);
  EXPECT_GT(moments.kurtosis, 20);
}

TEST(ErrorOperands, OutliersAndTheMassiveFeatureStandWhereTheyShould) {
  const auto plain = spread_activations(ActivationSpread::kGaussian, 3, kOperandRows, kOperandCols);
  const auto outliers = spread_activations(ActivationSpread::kOutliers, 3, kOperandRows, kOperandCols);
  const auto massive = spread_activations(ActivationSpread::kMassive, 3, kOperandRows, kOperandCols);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto feature = static_cast<std::int64_t>(i) % kOperandCols;
    if (feature % 97 == 0)
      ASSERT_FLOAT_EQ(outliers[i], 100 * plain[i]);
    else
      ASSERT_EQ(outliers[i], plain[i]);
    if (feature == kMassiveFeature)
      ASSERT_NEAR(massive[i], 1000, 300);
    else
      ASSERT_EQ(massive[i], plain[i]);
  }
}

TEST(ErrorOperands, BlindWeightsAreZeroForTheMassiveFeatureAlone) {
  const Weights plain = spread_weights(WeightSpread::kGaussian, 4, 20, kOperandCols);
  const Weights blind = spread_weights(WeightSpread::kBlind, 4, 20, kOperandCols);
  double square = 0;
  for (std::int64_t n = 0; n < 20; ++n)
    for (std::int64_t k = 0; k < kOperandCols; ++k) {
      const float weight = reference::widened(plain.view(), n, k);
      ASSERT_NE(weight, 0);
      ASSERT_EQ(reference::widened(blind.view(), n, k), k == kMassiveFeature ? 0 : weight);
      square += weight * weight;
    }
  EXPECT_NEAR(std::sqrt(square / (20 * kOperandCols)), 0.02, 0.0005);
}

}  // namespace
}  // namespace reprofuse::study
