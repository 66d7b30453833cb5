// The sizes of one launch of a linear layer, which schedules are chosen for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprofuse::cuda {

inline constexpr int kMaxOutputs = 8;  // fused in one launch
inline constexpr std::size_t kMaxPartialBytes = std::size_t{64} << 20;

// The boxes of weights that the TMA brings, with its swizzle of 128 bytes.
inline constexpr int kBoxRows = 64, kBoxRowBytes = 128;

struct Problem {
  std::int64_t m;
  std::int64_t k;
  std::vector<std::int64_t> n;  // of each output of the launch
  bool vector_loads;            // the operands allow them
  int weight_bytes = 0;         // of one; where the cost of reading them counts

  std::int64_t columns() const {
    std::int64_t sum = 0;
    for (const std::int64_t one : n) sum += one;
    return sum;
  }
};

}  // namespace reprofuse::cuda
