// Weights packed for the CPU kernels: once, for every instruction set alike.
//
// A panel holds kPanel output columns. 16-bit weights: for each pair of terms (k, k + 1) one word per column, k in its
// low and k + 1 in its high half, so that widening is a lane operation on machines of either byte order; the high half
// of an odd last term is zero and is never multiplied. binary32 weights: for each term one word per column.
// Columns past the end of a matrix are zero; their results are never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/cpu/parallel_rows.hpp"
#include "kernels/linear.hpp"
#include "numerics/widen.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::cpu {

// Output columns in a panel: the same for every register width, so packing knows no ISA.
inline constexpr int kPanel = 16;

inline constexpr std::size_t kCacheLine = 64;

// Which outputs a panel computes.
struct PanelColumns {
  std::size_t output;         // which of the fused outputs
  std::int64_t column;        // first column there
  std::int64_t columns;       // 1 to kPanel
  std::int64_t concatenated;  // first column over all outputs
};

class Panels {
 public:
  // All weights share k and dtype; each starts a new panel. Throws kNonFinite for a NaN or an infinity, naming the
  // layer and the first one's weight, row and column.
  Panels(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool);

  DType dtype() const { return dtype_; }
  std::int64_t k() const { return k_; }
  std::size_t panel_bytes() const { return panel_bytes_; }
  std::span<const PanelColumns> columns() const { return columns_; }

  // Term k of the panel; k is even.
  const void* at(std::int64_t panel, std::int64_t k) const;

 private:
  void pack_all(std::span<const WeightView> weights, std::string_view layer, ThreadPool& pool);
  bool pack(const WeightView& weight, std::int64_t panel);  // false: a weight is not finite

  DType dtype_;
  std::int64_t k_;
  std::size_t panel_bytes_;
  std::vector<PanelColumns> columns_;
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<std::uint32_t[], Free> words_;
};

// Stores totals, and the bias if there is one; says whether all are finite. Loops without branches, whose length is
// known where they are called for a whole panel: compilers make vector code of them.
[[gnu::always_inline]] inline bool store_finite(const float* __restrict totals, const float* __restrict bias,
                                                float* __restrict y, std::int64_t count) {
  std::int32_t others = 0;
  if (bias == nullptr) {
    for (std::int64_t c = 0; c < count; ++c) {
      y[c] = totals[c];
      others |= is_finite_bits(totals[c]) ? 0 : -1;
    }
  } else {
    for (std::int64_t c = 0; c < count; ++c) {
      const float value = totals[c] + bias[c];
      y[c] = value;
      others |= is_finite_bits(value) ? 0 : -1;
    }
  }
  return others == 0;
}

// The last step of a linear layer, whatever the contract.
// Bias, check, store: one row of one panel. An infinity or a NaN on the way to a total stays one, so looking at results
// misses nothing.
inline void store_panel_row(const kernels::LinearCall& call, const PanelColumns& columns, const float* totals,
                            std::int64_t row, FirstPlace& non_finite) {
  const LinearOutput& output = call.outputs[columns.output];
  const float* bias = output.bias == nullptr ? nullptr : output.bias + columns.column;
  float* y = output.y.data + row * output.y.stride + columns.column;
  const bool finite = columns.columns == kPanel ? store_finite(totals, bias, y, kPanel)
                                                : store_finite(totals, bias, y, columns.columns);
  if (finite) [[likely]]
    return;
  const float* first = std::find_if_not(y, y + columns.columns, is_finite_bits);
  non_finite.add({row, columns.concatenated + (first - y)});
}

// How the rows and panels of one call of a linear layer are cut into tasks. No bit depends on it.

// Panels of a task: neighbouring outputs, computed from the same rows.
inline constexpr int kGroupPanels = 4;

struct LinearSchedule {
  std::int64_t m;
  std::int64_t blocks;            // of rows, sized as evenly as possible
  std::int64_t blocks_per_chunk;  // a task computes a chunk of blocks for a group of panels
  std::int64_t chunks;
  std::int64_t panels;
  std::int64_t groups;

  std::int64_t row(std::int64_t block) const { return block * (m / blocks) + std::min(block, m % blocks); }
  int rows(std::int64_t block) const { return static_cast<int>(row(block + 1) - row(block)); }

  // What a task computes. Neighbouring tasks share their rows, which are the larger operand to keep near.
  std::int64_t block_begin(std::int64_t task) const { return task / groups * blocks_per_chunk; }
  std::int64_t block_end(std::int64_t task) const { return std::min(blocks, block_begin(task) + blocks_per_chunk); }
  std::int64_t panel_begin(std::int64_t task) const { return task % groups * kGroupPanels; }
  std::int64_t panel_end(std::int64_t task) const { return std::min(panels, panel_begin(task) + kGroupPanels); }
  std::int64_t tasks() const { return groups * chunks; }
};

// Blocks of at most `tile_rows` rows, in chunks of at most `max_rows`.
inline LinearSchedule make_linear_schedule(std::int64_t m, int tile_rows, std::int64_t max_rows, std::int64_t panels,
                                           int threads) {
  const std::int64_t groups = ceil_div<std::int64_t>(panels, kGroupPanels);
  const std::int64_t blocks = ceil_div<std::int64_t>(m, tile_rows);
  const std::int64_t fair = blocks * groups / (threads * kTasksPerThread);
  const std::int64_t blocks_per_chunk = std::clamp<std::int64_t>(fair, 1, max_rows / tile_rows);
  return {.m = m,
          .blocks = blocks,
          .blocks_per_chunk = blocks_per_chunk,
          .chunks = ceil_div(blocks, blocks_per_chunk),
          .panels = panels,
          .groups = groups};
}

}  // namespace reprofuse::cpu
