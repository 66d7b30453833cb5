// Where two results differ, for a person to look at: how many, the first place, both words.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::study {

struct BitDifference {
  std::int64_t count;  // values whose bits differ
  std::int64_t total;
  std::int64_t row;  // of the first of them, by row and then column
  std::int64_t column;
  std::uint32_t got;
  std::uint32_t expected;

  // "3 of 640 values differ, the first at row 2 column 17: 0x3f800001, expected 0x3f800000"
  std::string description() const {
    return fmt::format("{} of {} values differ, the first at row {} column {}: {:#010x}, expected {:#010x}", count,
                       total, row, column, got, expected);
  }
};

// By bits: +0 and -0 differ, equal NaNs do not. The shapes must agree; nullopt when every word does.
inline std::optional<BitDifference> first_difference(ConstMatrix got, ConstMatrix expected) {
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
