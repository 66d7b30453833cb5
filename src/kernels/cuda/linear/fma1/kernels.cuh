// The kernels of one weight format, as a table that the schedule chooses from. All give the same bits.
#pragma once

#include "kernels/cuda/linear/fma1/rows_sm80.cuh"
#include "kernels/cuda/linear/fma1/schedule.hpp"
#include "kernels/cuda/linear/fma1/stream_sm90.cuh"
#include "kernels/cuda/linear/fma1/tiles_sm80.cuh"

namespace reprofuse::cuda::fma1 {

template <typename W, RowsShape kShape>
Kernel rows_kernel(const char* name, Rate rate) {
  using S = Rows<W, kShape>;
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

template <typename W, TileShape kShape>
Kernel tiles_kernel(const char* name, Rate rate) {
  using S = Tiles<W, kShape>;
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

template <typename W, StreamShape kShape>
Kernel stream_kernel(const char* name, Rate rate) {
  using S = Stream<W, kShape>;
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_stream<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .start = Start::kEarly,
          .reads = Reads::kTma,
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
      stream_kernel<W, StreamShape{.lane_m = 4, .lane_n = 1, .warps_m = 1, .warps_n = 4, .sets = 2, .ctas_per_sm = 2}>(
          "stream-4x128", {.full = 41, .alone = 38.7}),
      rows_kernel<W, RowsShape{.thread_m = 1, .thread_n = 1, .groups_m = 1, .threads = 128, .stages = 4}>(
          "rows-1", {.full = 10.9, .alone = 6.9}),
      rows_kernel<W, RowsShape{.thread_m = 1, .thread_n = 1, .groups_m = 1, .threads = 64, .stages = 6}>(
          "rows-1-narrow", {.full = 10.1, .alone = 3.3}),
      rows_kernel<W, RowsShape{.thread_m = 2, .thread_n = 1, .groups_m = 1, .threads = 128, .stages = 4}>(
          "rows-2", {.full = 18.5, .alone = 11.5}),
      rows_kernel<W, RowsShape{.thread_m = 4, .thread_n = 1, .groups_m = 1, .threads = 128, .stages = 4}>(
          "rows-4", {.full = 24.4, .alone = 13.2}),
      rows_kernel<W, RowsShape{.thread_m = 4, .thread_n = 2, .groups_m = 1, .threads = 128, .stages = 3}>(
          "rows-4-wide", {.full = 33.9, .alone = 23.2}),
      rows_kernel<W, RowsShape{.thread_m = 4, .thread_n = 2, .groups_m = 2, .threads = 128, .stages = 4}>(
          "rows-8", {.full = 40.7, .alone = 18.7}),
      rows_kernel<W, RowsShape{.thread_m = 8, .thread_n = 2, .groups_m = 2, .threads = 128, .stages = 4}>(
          "rows-16", {.full = 52.1, .alone = 26.6}),
      stream_kernel<W, StreamShape{.lane_m = 4, .lane_n = 2, .warps_m = 1, .warps_n = 4, .sets = 1, .ctas_per_sm = 3}>(
          "stream-4x256", {.full = 52.1, .alone = 46}),
      stream_kernel<W, StreamShape{.lane_m = 8, .lane_n = 2, .warps_m = 1, .warps_n = 4, .sets = 1, .ctas_per_sm = 3}>(
          "stream-8x256", {.full = 62.8, .alone = 48.2}),
      stream_kernel<W, StreamShape{.lane_m = 4, .lane_n = 2, .warps_m = 2, .warps_n = 2, .sets = 2, .ctas_per_sm = 2}>(
          "stream-8x128", {.full = 59.2, .alone = 53.7}),
      stream_kernel<W, StreamShape{.lane_m = 8, .lane_n = 4, .warps_m = 2, .warps_n = 2, .sets = 1, .ctas_per_sm = 3}>(
          "stream-16x256", {.full = 75.4, .alone = 62.6}),
      stream_kernel<W, StreamShape{.lane_m = 8, .lane_n = 4, .warps_m = 4, .warps_n = 1, .sets = 1, .ctas_per_sm = 2}>(
          "stream-32x128", {.full = 72.2, .alone = 69.2}),
      tiles_kernel<W, TileShape{.tile_m = 32, .tile_n = 64, .thread_m = 4, .thread_n = 4, .stages = 6}>(
          "tiles-32x64", {.full = 62.8, .alone = 60.6}),
      tiles_kernel<W, TileShape{.tile_m = 32, .tile_n = 128, .thread_m = 4, .thread_n = 8, .stages = 5}>(
          "tiles-32x128-light", {.full = 72.2, .alone = 50.8}),
      tiles_kernel<W, TileShape{.tile_m = 32, .tile_n = 128, .thread_m = 8, .thread_n = 8, .stages = 1}>(
          "tiles-32x128", {.full = 77.8, .alone = 19.8}),
      tiles_kernel<W, TileShape{.tile_m = 64, .tile_n = 64, .thread_m = 4, .thread_n = 8, .stages = 5}>(
          "tiles-64x64", {.full = 75.7, .alone = 56.1}),
      tiles_kernel<W, TileShape{.tile_m = 64, .tile_n = 96, .thread_m = 4, .thread_n = 12, .stages = 4}>(
          "tiles-64x96", {.full = 80.8, .alone = 34.4}),
      tiles_kernel<W, TileShape{.tile_m = 64, .tile_n = 128, .thread_m = 8, .thread_n = 8, .stages = 1}>(
          "tiles-64x128", {.full = 84.1, .alone = 55}),
      tiles_kernel<
          W, TileShape{.tile_m = 32, .tile_n = 64, .thread_m = 4, .thread_n = 4, .stages = 1, .vector_loads = false}>(
          "tiles-any", {.full = 34, .alone = 17}),
  };
}

}  // namespace reprofuse::cuda::fma1
