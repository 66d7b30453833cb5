// How rows, and the panels of a linear layer, are shared among threads, and what comes back of their failures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/math.hpp"
#include "base/thread_pool.hpp"
#include "kernels/linear.hpp"

namespace reprofuse::cpu {

// Enough to be worth waking a thread; a single row stays with the caller.
inline constexpr std::int64_t kTaskElements = 16384;

// Calls row(m, worker) once for every m in [0, rows). `elements` is how many a row has.
template <class Row>
void for_each_row(ThreadPool& pool, std::int64_t rows, std::int64_t elements, const Row& row) {
  const std::int64_t per_task = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, elements));
  pool.parallel_for(ceil_div(rows, per_task), [&](std::int64_t task, int worker) {
    const std::int64_t end = std::min(rows, (task + 1) * per_task);
    for (std::int64_t m = task * per_task; m < end; ++m) row(m, worker);
  });
}

// How the rows and panels of one call of a linear layer are cut into tasks. No bit depends on it.

// Panels of a task: neighbouring outputs, computed from the same rows.
inline constexpr int kGroupPanels = 4;

struct LinearSchedule {
  std::int64_t m;
  std::int64_t blocks;                // of rows, sized as evenly as possible
  std::int64_t blocks_per_row_group;  // a task computes a group of blocks for a group of panels
  std::int64_t row_groups;
  std::int64_t panels;
  std::int64_t panel_groups;

  std::int64_t row(std::int64_t block) const { return block * (m / blocks) + std::min(block, m % blocks); }
  int rows(std::int64_t block) const { return static_cast<int>(row(block + 1) - row(block)); }

  // What a task computes. Neighbouring tasks share their rows, which are the larger operand to keep near.
  std::int64_t block_begin(std::int64_t task) const { return task / panel_groups * blocks_per_row_group; }
  std::int64_t block_end(std::int64_t task) const { return std::min(blocks, block_begin(task) + blocks_per_row_group); }
  std::int64_t panel_begin(std::int64_t task) const { return task % panel_groups * kGroupPanels; }
  std::int64_t panel_end(std::int64_t task) const { return std::min(panels, panel_begin(task) + kGroupPanels); }
  std::int64_t tasks() const { return panel_groups * row_groups; }
};

// Blocks of at most `tile_rows` rows, in groups of at most `max_rows` rows.
inline LinearSchedule make_linear_schedule(std::int64_t m, int tile_rows, std::int64_t max_rows, std::int64_t panels,
                                           int threads) {
  const std::int64_t panel_groups = ceil_div<std::int64_t>(panels, kGroupPanels);
  const std::int64_t blocks = ceil_div<std::int64_t>(m, tile_rows);
  const std::int64_t fair = blocks * panel_groups / (threads * kTasksPerThread);
  const std::int64_t blocks_per_row_group = std::clamp<std::int64_t>(fair, 1, max_rows / tile_rows);
  return {.m = m,
          .blocks = blocks,
          .blocks_per_row_group = blocks_per_row_group,
          .row_groups = ceil_div(blocks, blocks_per_row_group),
          .panels = panels,
          .panel_groups = panel_groups};
}

// The first place, by row and then column, where any task of a parallel loop failed.
class FirstNonFinite {
 public:
  void add(kernels::NonFinite place) {
    std::lock_guard lock(mutex_);
    if (!first_ || std::tie(place.row, place.column) < std::tie(first_->row, first_->column)) first_ = place;
  }
  std::optional<kernels::NonFinite> get() const { return first_; }

 private:
  std::mutex mutex_;
  std::optional<kernels::NonFinite> first_;
};

}  // namespace reprofuse::cpu
