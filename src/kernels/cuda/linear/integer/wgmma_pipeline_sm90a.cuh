// How weights and digits reach the kernels of compute capability 9.0: a pipeline of stages in shared memory that one
// thread keeps filling through the TMA.
#pragma once

#include "kernels/cuda/linear/integer/terms.cuh"
#include "kernels/cuda/ptx/pipeline_sm90.cuh"
#include "kernels/cuda/ptx/sm90.cuh"
#include "kernels/cuda/ptx/wgmma_sm90a.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::integer {

using ptx::kWarpgroupRows;
inline constexpr int kBoxTerms = kBoxRowBytes / 2;
static_assert(kBoxRows == kWarpgroupRows, "a box has the weight rows of a warpgroup");

// Sums of 64 bits in shared memory, from one row of x to the next: half a warp stores four neighbours of every second
// row without bank conflicts.
constexpr int sum_pitch(int columns) {
  return columns + 2;
}

struct WgmmaShape {
  int tile_m;               // rows of x
  int warpgroups;           // of math threads, each with 64 weight rows
  int stages;               // k-tiles in shared memory
  int ctas_per_sm;          // that the registers must be few enough for
  int math_registers = 0;   // of a math thread, where the producer hands over some of its own; 0: as many as all
  bool persistent = false;  // CTAs take one tile after another; otherwise each has some k-tiles of one
  bool prepared = false;    // weights come as digits, which another kernel has made
};

// What follows from a shape and the bytes that a contract makes of a k-tile of its rows of x.
template <typename W_, WgmmaShape kShape, int kTileBytes_>
struct WgmmaSizes {
  using W = W_;
  static constexpr int kTileM = kShape.tile_m, kWarpgroups = kShape.warpgroups, kStages = kShape.stages;
  static constexpr int kCtasPerSm = kShape.ctas_per_sm;
  static constexpr bool kPersistent = kShape.persistent, kPrepared = kShape.prepared;
  static constexpr int kTileN = kWarpgroups * kWarpgroupRows;
  static constexpr int kMathThreads = kWarpgroups * kWarpgroup;
  // Sums of many rows need more registers than other threads have. setmaxnreg is for whole warpgroups, so that the
  // producer is one too, and has what is left.
  static constexpr bool kMoveRegisters = kShape.math_registers > 0;
  static constexpr int kProducerThreads = kMoveRegisters ? kWarpgroup : kWarp;
  static constexpr int kThreads = kMathThreads + kProducerThreads;
  static constexpr int kEvenRegisters = registers_per_thread(kThreads, kCtasPerSm);
  static constexpr int kMathRegisters = kMoveRegisters ? kShape.math_registers : kEvenRegisters;
  static constexpr int kProducerRegisters = (kWarpgroups + 1) * kEvenRegisters - kWarpgroups * kMathRegisters;
  static_assert(!kMoveRegisters ||
                can_move_registers(kMathThreads, kMathRegisters, kProducerThreads, kProducerRegisters, kCtasPerSm));

  static constexpr int kBoxBytes = kWarpgroupRows * kBoxTerms * 2;
  static constexpr int kWeightBytes = kTileN * kTileK * 2;
  static constexpr int kPlaneBytes = kTileM * kTileK;  // one digit of the rows of x
  static constexpr int kTileBytes = kTileBytes_;       // all digits, and what comes with them
  static constexpr int kSwizzleBytes = 1024;           // the swizzle of 128 bytes repeats after them, by address
  static constexpr int kStageBytes = (kWeightBytes + kTileBytes + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes;
  static constexpr int kSumPitch = sum_pitch(kTileN);  // of the sums that the cluster reads
  static_assert(kWeightBytes % kSwizzleBytes == 0);
  static_assert(kTileM * kSumPitch * 8 <= kStages * kStageBytes, "the sums take the place of the stages");
};

// What a CTA has in shared memory besides the stages: barriers, and what the epilogue knows of its rows and columns.
template <typename S>
struct SharedState {
  std::uint64_t barriers[2 * S::kStages];
  typename S::Row rows[S::kTileM];
  int exponents[S::kTileN];  // bytes, as the contract writes them
};

template <typename S>
struct WgmmaShared {
  static constexpr int kStagesBytes = S::kStages * S::kStageBytes;
  static constexpr int kBytes = kStagesBytes + static_cast<int>(sizeof(SharedState<S>));
  static_assert(fits_shared(kBytes, S::kCtasPerSm, kSmSharedBytesSm90), "ctas_per_sm CTAs must find room on an SM");

  unsigned char* memory;

  __device__ explicit WgmmaShared(unsigned char* shared) : memory(shared) {}
  __device__ unsigned char* weights(int stage) const { return memory + stage * S::kStageBytes; }
  __device__ unsigned char* digits(int stage) const { return weights(stage) + S::kWeightBytes; }
  __device__ SharedState<S>& state() const { return *reinterpret_cast<SharedState<S>*>(memory + kStagesBytes); }
  __device__ ptx::Pipeline pipeline() const { return {state().barriers, S::kStages}; }
  // A consumer's: by one thread of a warp.
  __device__ void release(int stage, bool releases) const {
    if (releases) pipeline().release(stage);
  }
};

struct WgmmaTile {
  const Output& out;
  int row_tile, column_tile;  // of the launch
  int m0, n0;                 // first row of x, first column of the output

  __device__ WgmmaTile(const Params& p, int row_tile_, int column_tile_, int tile_m, int tile_n)
      : out(output_of_tile(p, p.first_column_tile + column_tile_)),
        row_tile(row_tile_),
        column_tile(column_tile_),
        m0(row_tile * tile_m),
        n0((p.first_column_tile + column_tile - out.first_tile) * tile_n) {}
};

// What a CTA has to do: one tile after another, or some k-tiles of one (split-K).
template <typename S>
struct TileScheduler {
  const Params& p;
  int tile, tiles, step;
  int begin, end;  // k-tiles

  __device__ explicit TileScheduler(const Params& params) : p(params) {
    tile = S::kPersistent ? blockIdx.x : 0;
    tiles = S::kPersistent ? p.row_tiles * p.column_tiles : 1;
    step = S::kPersistent ? gridDim.x : 1;
    begin = S::kPersistent ? 0 : p.k_tiles * blockIdx.x / p.splits;
    end = S::kPersistent ? p.k_tiles : p.k_tiles * (blockIdx.x + 1) / p.splits;
  }
  // Tiles of the same weight rows come one after another, so that CTAs side by side read them from the cache.
  __device__ WgmmaTile at(int which) const {
    if constexpr (S::kPersistent)
      return {p, which % p.row_tiles, which / p.row_tiles, S::kTileM, S::kTileN};
    else
      return {p, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z), S::kTileM, S::kTileN};
  }
};

// The digits of a tile's weight rows that were prepared, of one k-tile.
__device__ inline const std::uint8_t* prepared_weights(const Params& p, const WgmmaTile& tile, int k_tile) {
  const std::int64_t bytes = static_cast<std::int64_t>(p.k_tiles) * kPreparedBytes;
  const std::uint8_t* of_tile = p.digits_in_place
                                    ? static_cast<const std::uint8_t*>(tile.out.w) + tile.n0 / kPreparedRows * bytes
                                    : p.weights + tile.column_tile * bytes;
  return of_tile + static_cast<std::int64_t>(k_tile) * kPreparedBytes;
}

// One k-tile of a tile's weights, as digits that were prepared, or as boxes of 64 rows and 64 terms with the TMA's
// swizzle of 128 bytes: reads of one 16-byte vector of eight rows have no bank conflicts. Rows and terms beyond the
// edge are zero.
template <typename S>
__device__ inline void load_weights(const Params& p, const WgmmaTile& tile, const WgmmaShared<S>& shared, int stage,
                                    int k_tile) {
  std::uint64_t* full = shared.pipeline().full_barrier(stage);
  ptx::mbarrier_arrive_expect_tx(full, S::kWeightBytes + S::kTileBytes);
  if constexpr (S::kPrepared) {
    // All planes of digits in one piece, or of some of their rows one after another.
    constexpr int kPieces = S::kTileN == kPreparedRows ? 1 : kPreparedBytes / (kPreparedRows * kTileK);
    constexpr int kBytes = S::kWeightBytes / kPieces;
    const std::uint8_t* from = prepared_weights(p, tile, k_tile) + tile.n0 % kPreparedRows * kTileK;
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      ptx::tma_load_bulk(shared.weights(stage) + i * kBytes, from + i * (kPreparedBytes / kPieces), kBytes, full);
  } else {
#pragma unroll
    for (int group = 0; group < S::kWarpgroups; ++group)
#pragma unroll
      for (int box = 0; box < kTileK / kBoxTerms; ++box)
        ptx::tma_load_2d(shared.weights(stage) + (group * (kTileK / kBoxTerms) + box) * S::kBoxBytes, &tile.out.map,
                         k_tile * kTileK + box * kBoxTerms, tile.n0 + group * kWarpgroupRows, full);
  }
}

template <typename S>
__device__ inline void load_digits(const Params& p, const WgmmaTile& tile, const WgmmaShared<S>& shared, int stage,
                                   int k_tile) {
  const std::uint8_t* from = p.digits + (static_cast<std::int64_t>(tile.row_tile) * p.k_tiles + k_tile) * S::kTileBytes;
  ptx::tma_load_bulk(shared.digits(stage), from, S::kTileBytes, shared.pipeline().full_barrier(stage));
}

// The producer, one thread.
template <typename S>
__device__ inline void load_stages(const Params& p, const TileScheduler<S>& scheduler, const WgmmaShared<S>& shared) {
  // Prologue: weights are constants, so the first of them are loaded before the kernel that makes the digits has
  // finished; unless it makes theirs.
  if (S::kPrepared && !p.digits_in_place) wait_for_previous_kernel();
  const WgmmaTile first = scheduler.at(scheduler.tile);
  const int ahead = min(S::kStages, scheduler.end - scheduler.begin);
  for (int i = 0; i < ahead; ++i) load_weights<S>(p, first, shared, i, scheduler.begin + i);
  wait_for_previous_kernel();
  for (int i = 0; i < ahead; ++i) load_digits<S>(p, first, shared, i, scheduler.begin + i);

  // Main loop: the k-tiles of all tiles, but those of the first tile that are in flight.
  int filled = ahead;
  for (int t = scheduler.tile; t < scheduler.tiles; t += scheduler.step) {
    const WgmmaTile tile = scheduler.at(t);
    for (int k_tile = scheduler.begin + (t == scheduler.tile ? ahead : 0); k_tile < scheduler.end; ++k_tile, ++filled) {
      const auto at = ptx::PipelineState::of_producer(filled, S::kStages);
      if (filled >= S::kStages) shared.pipeline().wait_empty(at);
      load_weights<S>(p, tile, shared, at.stage, k_tile);
      load_digits<S>(p, tile, shared, at.stage, k_tile);
    }
  }
}

}  // namespace reprofuse::cuda::integer
