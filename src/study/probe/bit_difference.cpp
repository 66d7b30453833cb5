#include "study/probe/bit_difference.hpp"

#include <bit>

#include "base/check.hpp"

namespace reprofuse::study {

std::string BitDifference::description() const {
  return fmt::format("{} of {} values differ, the first at row {} column {}: {:#010x}, expected {:#010x}", count, total,
                     row, column, got, expected);
}

std::optional<BitDifference> first_difference(ConstMatrix got, ConstMatrix expected) {
  require(got.rows == expected.rows && got.cols == expected.cols, "cannot compare {} x {} with {} x {}", got.rows,
          got.cols, expected.rows, expected.cols);
  std::optional<BitDifference> first;
  for (std::int64_t row = 0; row < got.rows; ++row) {
    for (std::int64_t column = 0; column < got.cols; ++column) {
      const auto a = std::bit_cast<std::uint32_t>(got.data[row * got.stride + column]);
      const auto b = std::bit_cast<std::uint32_t>(expected.data[row * expected.stride + column]);
      if (a == b) continue;
      if (!first) first = BitDifference{0, got.rows * got.cols, row, column, a, b};
      ++first->count;
    }
  }
  return first;
}

}  // namespace reprofuse::study
