#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/reference.hpp"
#include "numerics/exact1.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/fma1.hpp"
#include "numerics/int16.hpp"

namespace reprofuse::reference {

// fma-1

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

// exact-1

SnappedRow snap_activations(const float* x, std::int64_t k) {
  std::uint32_t max = 0;
  for (std::int64_t i = 0; i < k; ++i) max = std::max(max, magnitude_bits(x[i]));
  if (max >= kInfinityBits) return {.values = {}, .finite = false};
  SnappedRow row{.values = {}, .exponent = exact1::activation_exponent(max)};
  const float scale = exact1::activation_scale(row.exponent);
  for (std::int64_t i = 0; i < k; ++i) row.values.push_back(exact1::snap_activation(x[i], scale));
  return row;
}

SnappedRow snap_weights(const WeightView& weight, std::int64_t row_index) {
  std::uint32_t max = 0;
  for (std::int64_t i = 0; i < weight.k; ++i) max = std::max(max, magnitude_bits(widened(weight, row_index, i)));
  if (max >= kInfinityBits) return {.values = {}, .finite = false};
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

// int16-1

namespace {

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
Snapped snap_weight_row(const WeightView& weight, std::int64_t n) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < weight.k; ++i) values.push_back(widened(weight, n, i));
  return snap16(values.data(), weight.k);
}

}  // namespace

Snapped snap16(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(x[i]));
  Snapped snapped{.values = std::vector<std::int32_t>(static_cast<std::size_t>(count)),
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
    const Snapped w = snap_weight_row(weight, n);
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
