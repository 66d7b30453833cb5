#include <algorithm>
#include <limits>

#include "base/math.hpp"
#include "kernels/reference/reference.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::reference {
namespace {

std::uint32_t magnitude_bits(float value) {
  return float_bits(value) & 0x7fffffffU;
}

struct Row {
  std::vector<std::int32_t> values;
  std::vector<int> units;  // of each block of terms
  int largest_unit = int16::kMinUnit;
};

Row snap_row(const float* x, std::int64_t k) {
  Row row;
  for (std::int64_t begin = 0; begin < k; begin += int16::kTermBlock) {
    std::uint32_t largest = 0;
    for (std::int64_t i = begin; i < std::min(k, begin + int16::kTermBlock); ++i)
      largest = std::max(largest, magnitude_bits(x[i]));
    row.units.push_back(int16::unit_byte(largest));
    row.largest_unit = std::max(row.largest_unit, row.units.back());
  }
  if (row.largest_unit == int16::kNotFinite) return row;
  for (int& unit : row.units) unit = int16::block_unit(unit, row.largest_unit);
  for (std::int64_t i = 0; i < k; ++i)
    row.values.push_back(
        int16::snap(x[i], int16::inverse_unit(row.units[static_cast<std::size_t>(i / int16::kTermBlock)])));
  return row;
}

// Of weights: one unit for the whole row.
Snapped16 snap_weight_row(const WeightView& weight, std::int64_t n) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < weight.k; ++i) values.push_back(widened(weight, n, i));
  return snap16(values.data(), weight.k);
}

}  // namespace

Snapped16 snap16(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  Snapped16 snapped{.values = std::vector<std::int32_t>(static_cast<std::size_t>(count)),
                    .unit = int16::unit_byte(largest)};
  if (snapped.unit == int16::kNotFinite) return snapped;
  for (std::int64_t i = 0; i < count; ++i)
    snapped.values[static_cast<std::size_t>(i)] = int16::snap(x[i], int16::inverse_unit(snapped.unit));
  return snapped;
}

void linear_int16(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y) {
  std::vector<Row> rows;
  for (std::int64_t m = 0; m < x.rows; ++m) rows.push_back(snap_row(x.data + m * x.stride, x.cols));
  for (std::int64_t n = 0; n < weight.n; ++n) {
    const Snapped16 w = snap_weight_row(weight, n);
    for (std::int64_t m = 0; m < x.rows; ++m) {
      const Row& row = rows[static_cast<std::size_t>(m)];
      float result = std::numeric_limits<float>::quiet_NaN();
      if (row.largest_unit != int16::kNotFinite && w.unit != int16::kNotFinite) {
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < x.cols; ++i) {
          const int unit = row.units[static_cast<std::size_t>(i / int16::kTermBlock)];
          const std::int64_t term =
              int16::term(row.values[static_cast<std::size_t>(i)], w.values[static_cast<std::size_t>(i)]);
          sum += term * (std::int64_t{1} << (unit - row.largest_unit + int16::kUnitRange));
        }
        result = int16::result(sum, row.largest_unit, w.unit);
      }
      y.data[m * y.stride + n] = bias == nullptr ? result : result + bias[n];
    }
  }
}

}  // namespace reprofuse::reference
