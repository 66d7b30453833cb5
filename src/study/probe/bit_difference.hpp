// Where two results differ, told so that a person can look: how many, the first place, both words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  std::string description() const;
};

// By bits: +0 and -0 differ, equal NaNs do not. The shapes must agree; nullopt when every word does.
std::optional<BitDifference> first_difference(ConstMatrix got, ConstMatrix expected);

}  // namespace reprofuse::study
