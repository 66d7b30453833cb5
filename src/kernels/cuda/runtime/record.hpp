// The workspace's record of the first non-finite result: one 64-bit word, op then row then column, kept as a minimum.
// An integer minimum does not depend on the order in which threads report.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/backend.hpp"

namespace reprofuse::cuda {

using Record = unsigned long long;

inline constexpr Record kNothingRecorded = ~Record{0};
inline constexpr int kPlaceBits = 24;                                    // of a row or a column
inline constexpr std::int64_t kMaxRows = std::int64_t{1} << kPlaceBits;  // calls have fewer rows

inline OpPlace unpack(Record record) {
  constexpr Record kMask = (Record{1} << kPlaceBits) - 1;
  return {.op = static_cast<unsigned>(record >> (2 * kPlaceBits)),
          .place = {.row = static_cast<std::int64_t>(record >> kPlaceBits & kMask),
                    .column = static_cast<std::int64_t>(record & kMask)}};
}

}  // namespace reprofuse::cuda
