#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.hpp"
#include "numerics/order.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::reference {

float widened(const WeightView& weight, std::int64_t row, std::int64_t col) {
  return widen(weight.dtype, load_weight(weight.data, weight.dtype, row * weight.stride + col));
}

namespace {

// One segment: a chain of fused multiply-adds in ascending k, from +0.
float chain(const float* x, const WeightView& weight, std::int64_t n, std::int64_t k_begin, std::int64_t k_end) {
  float acc = 0.0F;
  for (std::int64_t k = k_begin; k < k_end; ++k) acc = std::fma(x[k], widened(weight, n, k), acc);
  return acc;
}

}  // namespace

void linear_fma1(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) {
  for (std::int64_t m = 0; m < x.rows; ++m) {
    const float* row = x.data + m * x.stride;
    for (std::int64_t n = 0; n < weight.n; ++n) {
      float total = 0.0F;
      for (std::int64_t k = 0; k < weight.k; k += fma1::kSegment) {
        const float partial = chain(row, weight, n, k, std::min(weight.k, k + fma1::kSegment));
        total = k == 0 ? partial : total + partial;
      }
      y.data[m * y.stride + n] = bias == nullptr ? total : total + bias[n];
    }
  }
}

}  // namespace reprofuse::reference
