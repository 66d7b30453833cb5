// The kernels of one weight format, as a table that the schedule chooses from. All give the same bits.
#pragma once

#include "kernels/cuda/linear/fma1/rows.cuh"
#include "kernels/cuda/linear/fma1/schedule.hpp"
#include "kernels/cuda/linear/fma1/stream.cuh"
#include "kernels/cuda/linear/fma1/tiles.cuh"

namespace reprofuse::cuda::fma1 {

template <typename S>
Kernel rows_kernel(const char* name, Rate rate) {
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_rows<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .start = Start::kEarly,
          .reads = Reads::kVectors,
          .splits = true,
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
          .reads = S::kVectorLoads ? Reads::kVectors : Reads::kSingly,
          .splits = true,
          .shared_bytes = S::kSharedBytes,
          .fold_bytes = S::kTotalBytes,
          .rate = rate};
}

template <typename S>
Kernel stream_kernel(const char* name, Rate rate) {
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_stream<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .start = Start::kEarly,
          .reads = Reads::kBoxes,
          .splits = S::kSets == 1,
          .shared_bytes = S::kBarrierBytes,
          .fold_bytes = S::kTotalBytes,
          .rate = rate,
          .stage_bytes = S::kStageBytes,
          .tile_k = S::kTileK};
}

// Rates as bench/linear_schedules measured them on an H200 with BF16 weights. Where memory binds several kernels alike,
// the first is taken.
template <typename W>
std::vector<Kernel> make_kernels() {
  return {
      stream_kernel<StreamShape<W, 4, 1, 1, 4, 2, 2>>("stream-4x128", {.full = 41, .alone = 38.7}),
      rows_kernel<RowsShape<W, 1, 1, 1, 128, 128, 4>>("rows-1", {.full = 10.9, .alone = 6.9}),
      rows_kernel<RowsShape<W, 1, 1, 1, 64, 128, 6>>("rows-1-narrow", {.full = 10.1, .alone = 3.3}),
      rows_kernel<RowsShape<W, 2, 1, 1, 128, 128, 4>>("rows-2", {.full = 18.5, .alone = 11.5}),
      rows_kernel<RowsShape<W, 4, 1, 1, 128, 128, 4>>("rows-4", {.full = 24.4, .alone = 13.2}),
      rows_kernel<RowsShape<W, 4, 1, 2, 128, 128, 3>>("rows-4-wide", {.full = 33.9, .alone = 23.2}),
      rows_kernel<RowsShape<W, 4, 2, 2, 128, 128, 4>>("rows-8", {.full = 40.7, .alone = 18.7}),
      rows_kernel<RowsShape<W, 8, 2, 2, 128, 128, 4>>("rows-16", {.full = 52.1, .alone = 26.6}),
      stream_kernel<StreamShape<W, 4, 1, 2, 4, 1, 3>>("stream-4x256", {.full = 52.1, .alone = 46}),
      stream_kernel<StreamShape<W, 8, 1, 2, 4, 1, 3>>("stream-8x256", {.full = 62.8, .alone = 48.2}),
      stream_kernel<StreamShape<W, 4, 2, 2, 2, 2, 2>>("stream-8x128", {.full = 59.2, .alone = 53.7}),
      stream_kernel<StreamShape<W, 8, 2, 4, 2, 1, 3>>("stream-16x256", {.full = 75.4, .alone = 62.6}),
      stream_kernel<StreamShape<W, 8, 4, 4, 1, 1, 2>>("stream-32x128", {.full = 72.2, .alone = 69.2}),
      tiles_kernel<TileShape<W, 32, 64, 4, 4, 6>>("tiles-32x64", {.full = 62.8, .alone = 60.6}),
      tiles_kernel<TileShape<W, 32, 128, 4, 8, 5>>("tiles-32x128-light", {.full = 72.2, .alone = 50.8}),
      tiles_kernel<TileShape<W, 32, 128, 8, 8, 1>>("tiles-32x128", {.full = 77.8, .alone = 19.8}),
      tiles_kernel<TileShape<W, 64, 64, 4, 8, 5>>("tiles-64x64", {.full = 75.7, .alone = 56.1}),
      tiles_kernel<TileShape<W, 64, 96, 4, 12, 4>>("tiles-64x96", {.full = 80.8, .alone = 34.4}),
      tiles_kernel<TileShape<W, 64, 128, 8, 8, 1>>("tiles-64x128", {.full = 84.1, .alone = 55}),
      tiles_kernel<TileShape<W, 32, 64, 4, 4, 1, false>>("tiles-any", {.full = 34, .alone = 17}),
  };
}

}  // namespace reprofuse::cuda::fma1
