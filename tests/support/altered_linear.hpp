// Negative controls: linear layers that differ from fma-1 in one respect each, all of them as accurate as it is.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/reference/reference.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {

enum class Alteration {
  kNone,               // fma-1 itself: the control of the controls
  kFoldDescending,     // segments folded from the last to the first
  kUnfused,            // a rounded product, then an addition
  kHalfSegments,       // chains of 256 terms
  kOrderDependsOnM,    // chains of 256 terms from 16 rows up, as a tuned kernel might
  kOneValueInBigBatch  // one wrong bit in one row of batches above 1000
};

class AlteredLinear final : public HostLinear {
 public:
  AlteredLinear(Alteration alteration, const WeightView& weight) : alteration_(alteration), weight_(weight) {}

  void run(ConstMatrix x, const float* bias, Matrix y) override {
    for (std::int64_t m = 0; m < x.rows; ++m)
      for (std::int64_t n = 0; n < weight_.n; ++n) {
        const float total = fold(x.data + m * x.stride, n, x.rows);
        y.data[m * y.stride + n] = bias == nullptr ? total : total + bias[n];
      }
    if (alteration_ == Alteration::kOneValueInBigBatch && x.rows > 1000) {
      float& value = y.data[777 * y.stride + 5];
      value = std::nextafter(value, 1000.0F);
    }
  }

  std::string implementation() const override { return "altered"; }

 private:
  std::int64_t segment_length(std::int64_t rows) const {
    const bool half =
        alteration_ == Alteration::kHalfSegments || (alteration_ == Alteration::kOrderDependsOnM && rows >= 16);
    return half ? 256 : 512;
  }

  float fold(const float* x, std::int64_t n, std::int64_t rows) const {
    std::vector<float> partials;
    const std::int64_t length = segment_length(rows);
    for (std::int64_t k = 0; k < weight_.k; k += length)
      partials.push_back(chain(x, n, k, std::min(weight_.k, k + length)));
    if (alteration_ == Alteration::kFoldDescending) std::reverse(partials.begin(), partials.end());
    float total = partials[0];
    for (std::size_t i = 1; i < partials.size(); ++i) total = total + partials[i];
    return total;
  }

  float chain(const float* x, std::int64_t n, std::int64_t begin, std::int64_t end) const {
    float acc = 0.0F;
    for (std::int64_t k = begin; k < end; ++k) {
      const float w = reference::widened(weight_, n, k);
      acc = alteration_ == Alteration::kUnfused ? acc + x[k] * w : std::fma(x[k], w, acc);
    }
    return acc;
  }

  Alteration alteration_;
  WeightView weight_;
};

inline PrepareLinear altered(Alteration alteration) {
  return [alteration](const WeightView& weight, std::int64_t) {
    return std::make_unique<AlteredLinear>(alteration, weight);
  };
}

}  // namespace reprofuse::study
