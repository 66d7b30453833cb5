#include "study/probe/rows.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "study/probe/bit_difference.hpp"
#include "study/seeded/inputs.hpp"

namespace reprofuse::study {
namespace {

constexpr std::int64_t kN = 80;
// Three segments of fma-1, the last one short: rows of 16-bit weights that 16-byte loads can read, and rows they
// cannot.
constexpr std::int64_t kK[] = {1104, 1100};
constexpr std::uint64_t kRowsSeed = 0x10000;

}  // namespace

std::vector<std::int64_t> batch_sizes(std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t m = 1; m <= 9; ++m) sizes.push_back(m);
  for (std::int64_t power = 16; power - 1 <= largest; power *= 2)
    for (std::int64_t m = power - 1; m <= power + 1; ++m) sizes.push_back(m);
  std::erase_if(sizes, [&](std::int64_t m) { return m > largest; });
  return sizes;
}

std::string RowDifference::description() const {
  return fmt::format(
      "{} weights, K = {}, M = {}: row {} column {} is {:#010x}, but {:#010x} when the row is computed alone",
      dtype_name(weights), k, m, row, column, in_batch, alone);
}

std::optional<RowDifference> find_row_difference(HostLinear& layer, DType weights, std::int64_t n, ConstMatrix x,
                                                 std::span<const std::int64_t> sizes) {
  const auto values = static_cast<std::size_t>(x.rows * n);
  std::vector<float> alone(values);  // [x.rows, n]
  for (std::int64_t row = 0; row < x.rows; ++row)
    layer.run({x.data + row * x.stride, 1, x.cols, x.stride}, nullptr, {alone.data() + row * n, 1, n, n});
  std::vector<float> together(values);
  for (const std::int64_t m : sizes) {
    require(m <= x.rows, "a batch of {} rows was asked of {} rows", m, x.rows);
    std::fill(together.begin(), together.end(), 0.0F);
    layer.run({x.data, m, x.cols, x.stride}, nullptr, {together.data(), m, n, n});
    if (const auto found = first_difference({together.data(), m, n, n}, {alone.data(), m, n, n}))
      return RowDifference{weights, x.cols, m, found->row, found->column, found->expected, found->got};
  }
  return std::nullopt;
}

std::optional<RowDifference> probe_rows(const PrepareLinear& prepare, std::int64_t largest, ThreadPool& pool,
                                        const std::function<void(DType)>& on_start) {
  for (const DType weights : {DType::kBF16, DType::kF16, DType::kF32}) {
    if (on_start) on_start(weights);
    for (const std::int64_t k : kK) {
      const std::vector<float> x = make_activations(kRowsSeed, largest, k);
      const Weights weight = make_weights(kRowsSeed + 1, weights, kN, k, pool);
      const auto layer = prepare(weight.view(), largest);
      if (auto found = find_row_difference(*layer, weights, kN, {x.data(), largest, k, k}, batch_sizes(largest)))
        return found;
    }
  }
  return std::nullopt;
}

}  // namespace reprofuse::study
