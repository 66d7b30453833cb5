// The kernels of one weight format, as a table that the schedule chooses from. All give the same bits.
#pragma once

#include "kernels/cuda/linear_fma1_rows.cuh"
#include "kernels/cuda/linear_fma1_schedule.hpp"
#include "kernels/cuda/linear_fma1_tiles.cuh"

namespace reprofuse::cuda::fma1 {

template <typename S>
Kernel rows_kernel(const char* name, Rate rate) {
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_rows<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .start = Start::kEarly,
          .vector_loads = true,
          .shared_bytes = S::kSharedBytes,
          .fold_bytes = 0,
          .rate = rate};
}

template <typename S>
Kernel tiles_kernel(const char* name, Rate rate) {
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_tiles<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .start = Start::kInTurn,
          .vector_loads = S::kVectorLoads,
          .shared_bytes = S::kSharedBytes,
          .fold_bytes = S::kTotalBytes,
          .rate = rate};
}

// Rates as bench/linear_schedules measured them on an H200 with BF16 weights.
template <typename W>
std::vector<Kernel> make_kernels() {
  return {
      rows_kernel<RowsShape<W, 1, 1, 1, 128, 128, 4>>("rows-1", {.full = 7.8, .alone = 7.0}),
      rows_kernel<RowsShape<W, 1, 1, 1, 64, 128, 6>>("rows-1-narrow", {.full = 7.9, .alone = 3.7}),
      rows_kernel<RowsShape<W, 2, 1, 1, 128, 128, 4>>("rows-2", {.full = 13.6, .alone = 13}),
      rows_kernel<RowsShape<W, 4, 1, 1, 128, 128, 4>>("rows-4", {.full = 22.4, .alone = 18}),
      rows_kernel<RowsShape<W, 4, 1, 2, 128, 128, 3>>("rows-4-wide", {.full = 30, .alone = 22}),
      rows_kernel<RowsShape<W, 4, 2, 2, 128, 128, 4>>("rows-8", {.full = 36, .alone = 25}),
      rows_kernel<RowsShape<W, 8, 2, 2, 128, 128, 4>>("rows-16", {.full = 46, .alone = 37}),
      tiles_kernel<TileShape<W, 32, 128, 4, 8, 16, true>>("tiles-32-light", {.full = 68, .alone = 33}),
      tiles_kernel<TileShape<W, 32, 128, 8, 8, 16, true>>("tiles-32", {.full = 74, .alone = 15}),
      tiles_kernel<TileShape<W, 64, 128, 8, 8, 16, true>>("tiles-64", {.full = 88, .alone = 43}),
      tiles_kernel<TileShape<W, 32, 64, 4, 4, 16, false>>("tiles-any", {.full = 34, .alone = 17}),
  };
}

}  // namespace reprofuse::cuda::fma1
