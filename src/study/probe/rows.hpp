// Batch invariance: the bits of a row must not depend on how many rows are computed with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/probe/linear.hpp"

namespace reprofuse::study {

// 1 to 9, then 2^n - 1, 2^n and 2^n + 1, as far as `largest`.
std::vector<std::int64_t> batch_sizes(std::int64_t largest);

struct RowDifference {
  DType weights;
  std::int64_t k;
  std::int64_t m;  // the batch in which the row came out differently
  std::int64_t row;
  std::int64_t column;
  std::uint32_t alone;     // the word when the row is computed by itself
  std::uint32_t in_batch;  // and among m rows

  // "bf16 weights, K = 1104, M = 64: row 3 column 17 is 0x3f800001, but 0x3f800000 when the row is computed alone"
  std::string description() const;
};

// Computes every row of x alone, then the first m rows together for each m of `sizes`, and compares the bits.
// The largest size must not exceed x.rows.
std::optional<RowDifference> find_row_difference(HostLinear& layer, DType weights, std::int64_t n, ConstMatrix x,
                                                 std::span<const std::int64_t> sizes);

// The same for each weight type at n = 80 and k = 1104 and 1100, with seeded operands and every size up to `largest`.
// on_start, when there is one, is told the weight type.
std::optional<RowDifference> probe_rows(const PrepareLinear& prepare, std::int64_t largest, ThreadPool& pool,
                                        const std::function<void(DType)>& on_start = {});

}  // namespace reprofuse::study
