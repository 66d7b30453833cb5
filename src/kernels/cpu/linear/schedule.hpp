// How the rows and panels of one call of a linear layer are cut into tasks. No bit depends on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.hpp"
#include "base/thread_pool.hpp"

namespace reprofuse::cpu {

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
