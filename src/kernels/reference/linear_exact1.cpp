#include <algorithm>
#include <limits>

#include "kernels/reference/reference.hpp"
#include "numerics/exact.hpp"
#include "numerics/widen.hpp"

namespace reprofuse::reference {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffU;
constexpr std::uint32_t kInfinity = 0x7f800000U;

}  // namespace

SnappedRow snap_activations(const float* x, std::int64_t k) {
  std::uint32_t max = 0;
  for (std::int64_t i = 0; i < k; ++i) max = std::max(max, float_bits(x[i]) & kMagnitude);
  if (max >= kInfinity) return {.values = {}, .finite = false};
  SnappedRow row{.values = {}, .exponent = exact1::activation_exponent(max)};
  const float scale = exact1::activation_scale(row.exponent);
  for (std::int64_t i = 0; i < k; ++i) row.values.push_back(exact1::snap_activation(x[i], scale));
  return row;
}

SnappedRow snap_weights(const WeightView& weight, std::int64_t row_index) {
  std::uint32_t max = 0;
  for (std::int64_t i = 0; i < weight.k; ++i)
    max = std::max(max, float_bits(widened(weight, row_index, i)) & kMagnitude);
  if (max >= kInfinity) return {.values = {}, .finite = false};
  SnappedRow row{.values = {}, .exponent = exact1::weight_exponent(max)};
  const float scale = exact1::weight_scale(row.exponent);
  for (std::int64_t i = 0; i < weight.k; ++i)
    row.values.push_back(exact1::weight_integer(exact1::snap_weight(widened(weight, row_index, i), scale)));
  return row;
}

std::int64_t sum_terms(const SnappedRow& x, const SnappedRow& w, std::int64_t begin, std::int64_t end) {
  std::int64_t sum = 0;
  for (auto k = static_cast<std::size_t>(begin); k < static_cast<std::size_t>(end); ++k)
    sum += exact1::term(x.values[k], w.values[k]);
  return sum;
}

void linear_exact1(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) {
  std::vector<SnappedRow> rows;
  for (std::int64_t m = 0; m < x.rows; ++m) rows.push_back(snap_activations(x.data + m * x.stride, x.cols));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    const SnappedRow w = snap_weights(weight, n);
    for (std::int64_t m = 0; m < x.rows; ++m) {
      const SnappedRow& row = rows[static_cast<std::size_t>(m)];
      float total = std::numeric_limits<float>::quiet_NaN();
      if (row.finite && w.finite) total = exact1::result(sum_terms(row, w, 0, x.cols), row.exponent, w.exponent);
      y.data[m * y.stride + n] = bias == nullptr ? total : total + bias[n];
    }
  }
}

}  // namespace reprofuse::reference
