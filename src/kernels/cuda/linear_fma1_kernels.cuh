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
      rows_kernel<RowsShape<W, 1, 1, 1, 128, 128, 4>>("rows-1", {.full = 11, .alone = 7.5}),
      rows_kernel<RowsShape<W, 1, 1, 1, 64, 128, 6>>("rows-1-narrow", {.full = 8.9, .alone = 4.1}),
      rows_kernel<RowsShape<W, 2, 1, 1, 128, 128, 4>>("rows-2", {.full = 14.6, .alone = 11.6}),
      rows_kernel<RowsShape<W, 4, 1, 1, 128, 128, 4>>("rows-4", {.full = 25.9, .alone = 14.8}),
      rows_kernel<RowsShape<W, 4, 1, 2, 128, 128, 3>>("rows-4-wide", {.full = 28.7, .alone = 20.6}),
      rows_kernel<RowsShape<W, 4, 2, 2, 128, 128, 4>>("rows-8", {.full = 37.7, .alone = 22.9}),
      rows_kernel<RowsShape<W, 8, 2, 2, 128, 128, 4>>("rows-16", {.full = 51.3, .alone = 29.4}),
      tiles_kernel<TileShape<W, 32, 64, 4, 4, 6>>("tiles-32x64", {.full = 64.1, .alone = 27.4}),
      tiles_kernel<TileShape<W, 32, 128, 4, 8, 5>>("tiles-32-light", {.full = 73, .alone = 50.3}),
      tiles_kernel<TileShape<W, 32, 128, 8, 8, 1>>("tiles-32", {.full = 77.6, .alone = 18.2}),
      tiles_kernel<TileShape<W, 64, 64, 4, 8, 5>>("tiles-64x64", {.full = 76.5, .alone = 54.2}),
      tiles_kernel<TileShape<W, 64, 96, 4, 12, 4>>("tiles-64x96", {.full = 80.5, .alone = 34.6}),
      tiles_kernel<TileShape<W, 64, 128, 8, 8, 1>>("tiles-64", {.full = 84.8, .alone = 76.5}),
      tiles_kernel<TileShape<W, 32, 64, 4, 4, 1, false>>("tiles-any", {.full = 34, .alone = 17}),
  };
}

}  // namespace reprofuse::cuda::fma1
