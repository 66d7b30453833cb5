// Negative controls: linear layers that differ from exact-1 in one respect each, all of them about as accurate as it
// is.
#pragma once

#include <memory>
#include <string>

#include "base/fp_environment.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/exact1.hpp"
#include "study/probe/probe.hpp"

namespace reprofuse::study {

enum class ExactAlteration {
  kNone,           // exact-1 itself: the control of the controls
  kNineProducts,   // the product of the lowest digits is not left out
  kNegativeBytes,  // the lowest digit of a weight is taken from -128 to 127
  kTwoParts,       // each half of K is rounded before the halves are added
};

class AlteredExact final : public HostLinear {
 public:
  AlteredExact(ExactAlteration alteration, const WeightView& weight) : alteration_(alteration), weight_(weight) {}

  void run(ConstMatrix x, const float* bias, Matrix y) override {
    const FpEnvironment pinned;
    for (std::int64_t n = 0; n < weight_.n; ++n) {
      const reference::SnappedRow w = reference::snap_weights(weight_, n);
      for (std::int64_t m = 0; m < x.rows; ++m) {
        const float total = result(reference::snap_activations(x.data + m * x.stride, x.cols), w);
        y.data[m * y.stride + n] = bias == nullptr ? total : total + bias[n];
      }
    }
  }

  std::string implementation() const override { return "altered"; }

 private:
  float result(const reference::SnappedRow& x, const reference::SnappedRow& w) const {
    const auto rounded = [&](std::int64_t begin, std::int64_t end) {
      std::int64_t sum = 0;
      for (auto k = static_cast<std::size_t>(begin); k < static_cast<std::size_t>(end); ++k)
        sum += term(x.values[k], w.values[k]);
      return exact1::result(sum, x.exponent, w.exponent);
    };
    const std::int64_t half = weight_.k / 2;
    return alteration_ == ExactAlteration::kTwoParts ? rounded(0, half) + rounded(half, weight_.k)
                                                     : rounded(0, weight_.k);
  }

  std::int64_t term(std::int32_t x, std::int32_t w) const {
    switch (alteration_) {
      case ExactAlteration::kNineProducts: return std::int64_t{x} * w;
      case ExactAlteration::kNegativeBytes:
        return std::int64_t{x} * w - exact1::activation_low(x) * exact1::activation_low(w);
      case ExactAlteration::kNone:
      case ExactAlteration::kTwoParts: break;
    }
    return exact1::term(x, w);
  }

  ExactAlteration alteration_;
  WeightView weight_;
};

inline PrepareLinear altered(ExactAlteration alteration) {
  return [alteration](const WeightView& weight, std::int64_t) {
    return std::make_unique<AlteredExact>(alteration, weight);
  };
}

}  // namespace reprofuse::study
