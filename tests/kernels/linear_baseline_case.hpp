// Operands of a list of linear layers, their results in double precision, and what a baseline may be off by.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "reprofuse/reprofuse.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse {

inline constexpr float kPoison = 12345.678F;

struct BaselineCase {
  std::int64_t m, k;
  std::vector<std::int64_t> n;  // of each output
  DType dtype = DType::kBF16;
  bool bias = false;
  std::int64_t padding = 0;  // elements between rows of x, of each weight and of each y

  std::vector<float> x{};
  std::vector<study::Weights> weights{};
  std::vector<std::vector<float>> biases{};

  void make(ThreadPool& pool) {
    x = study::make_activations(1, m, k + padding);
    for (std::size_t i = 0; i < n.size(); ++i) {
      weights.push_back(study::make_weights(10 + i, dtype, n[i], k + padding, pool));
      biases.push_back(study::make_activations(20 + i, 1, n[i]));
    }
  }

  ConstMatrix x_view(const float* data) const { return {data, m, k, k + padding}; }
  WeightView weight_view(std::size_t i, const void* data) const { return {data, dtype, n[i], k, k + padding}; }
  Matrix y_view(std::size_t i, float* data) const { return {data, m, n[i], n[i] + padding}; }
  std::vector<float> poisoned(std::size_t i) const {
    return std::vector<float>(static_cast<std::size_t>(m * (n[i] + padding)), kPoison);
  }

  // The largest error of output i, as a part of `tolerance` times the sum of the magnitudes that were added.
  // Infinite when padding was written.
  double worst_error(std::size_t i, const std::vector<float>& y, double tolerance) const {
    const WeightView weight = weight_view(i, weights[i].storage.data());
    double worst = 0.0;
    for (std::int64_t row = 0; row < m; ++row) {
      const float* got = y.data() + row * (n[i] + padding);
      for (std::int64_t column = 0; column < n[i]; ++column) {
        const double b = bias ? biases[i][static_cast<std::size_t>(column)] : 0.0;
        double exact = b, magnitude = std::abs(b);
        for (std::int64_t t = 0; t < k; ++t) {
          const double term =
              1.0 * x[static_cast<std::size_t>(row * (k + padding) + t)] * reference::widened(weight, column, t);
          exact += term;
          magnitude += std::abs(term);
        }
        worst = std::max(worst, std::abs(got[column] - exact) / (tolerance * magnitude));
      }
      if (std::any_of(got + n[i], got + n[i] + padding, [](float value) { return value != kPoison; })) return INFINITY;
    }
    return worst;
  }
};

// Any order of k binary32 operations and a bias: the textbook bound. BF16: four roundings of 2^-8 at most, of x, of a
// binary32 weight, of the sum and of the sum with its bias.
inline double tolerance_of(std::string_view numerics, std::int64_t k) {
  const double binary32 = 1.01 * static_cast<double>(k + 1) * 0x1p-24;
  return numerics == "bf16" ? 4.1 * 0x1p-8 + binary32 : binary32;
}

// Sizes off every alignment, one row, and lists that share x.
inline std::vector<BaselineCase> baseline_cases() {
  return {{.m = 1, .k = 1, .n = {1}},
          {.m = 1, .k = 512, .n = {300}},
          {.m = 3, .k = 31, .n = {17}, .bias = true},
          {.m = 7, .k = 513, .n = {129, 1, 64}, .bias = true},
          {.m = 33, .k = 256, .n = {64, 32, 32}, .bias = true, .padding = 3},
          {.m = 65, .k = 97, .n = {70}, .padding = 8}};
}

}  // namespace reprofuse
