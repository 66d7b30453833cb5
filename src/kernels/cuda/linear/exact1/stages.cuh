// How weights and digits reach the exact-1 kernels of compute capability 9.0: through stages in shared memory that one
// thread keeps filling.
#pragma once

#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/ptx/hopper.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::exact1 {

inline constexpr int kWarp = 32;
using namespace hopper;  // NOLINT(google-build-using-namespace): the instructions these kernels are made of
inline constexpr int kGroupThreads = 128;  // of a warp group
inline constexpr int kGroupRows = 64;      // weight rows that it multiplies
inline constexpr int kBoxTerms = 64;       // of 64 weight rows, copied together

// kTileM rows of x against kGroups * 64 weight rows, a warp group for each 64. kStages chunks are in shared memory,
// kBlocks blocks on a multiprocessor. kManyTiles: blocks take one tile after another; otherwise each has a share of
// one.
template <typename W_, int kTileM_, int kGroups_, int kStages_, int kBlocks_, bool kManyTiles_>
struct WgmmaShape {
  using W = W_;
  static constexpr int kTileM = kTileM_, kGroups = kGroups_, kStages = kStages_, kBlocks = kBlocks_;
  static constexpr bool kManyTiles = kManyTiles_;
  static constexpr int kTileN = kGroups * kGroupRows;
  static constexpr int kConsumers = kGroups * kGroupThreads;
  // Sums of many rows need more registers than an even share. They change hands by the warp group, so that the producer
  // is one too.
  static constexpr bool kMoveRegisters = kTileM * kGroups >= 128;
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
  static constexpr int kThreads = kConsumers + (kMoveRegisters ? kGroupThreads : kWarp);
  static constexpr int kBoxBytes = kGroupRows * kBoxTerms * 2;
  static constexpr int kWeightBytes = kTileN * kChunk * 2;
  static constexpr int kPlaneBytes = kTileM * kChunk;        // one digit of the rows of x
  static constexpr int kDigitBytes = kDigits * kPlaneBytes;  // all of them
  static constexpr int kStageBytes = kWeightBytes + kDigitBytes;
  static constexpr int kSumPitch = kTileN + 4;  // of the sums that a block shows its cluster
  static_assert(kStageBytes % 1024 == 0, "pieces are swapped by address");
  static_assert(kTileM * kSumPitch * 8 <= kStages * kStageBytes, "they take the place of the stages");
};

// What a block has in shared memory besides: barriers, and what it knows of its tile's rows of x and of weights.
template <typename S>
struct Notes {
  std::uint64_t full[S::kStages];
  std::uint64_t empty[S::kStages];
  Row rows[S::kTileM];  // their offsets: what this block takes out of its sums
  int exponents[S::kTileN];
};

template <typename S>
struct Stages {
  static constexpr int kStagesBytes = S::kStages * S::kStageBytes;
  static constexpr int kBytes = kStagesBytes + static_cast<int>(sizeof(Notes<S>));
  static_assert(kBytes * S::kBlocks <= 227 << 10, "what a multiprocessor of 9.0 has");

  unsigned char* memory;

  __device__ explicit Stages(unsigned char* shared) : memory(shared) {}
  __device__ unsigned char* weights(int stage) const { return memory + stage * S::kStageBytes; }
  __device__ unsigned char* digits(int stage) const { return weights(stage) + S::kWeightBytes; }
  __device__ Notes<S>& notes() const { return *reinterpret_cast<Notes<S>*>(memory + kStagesBytes); }
};

// A place in the ring of stages, and the parity of its turn.
template <typename S>
struct Turn {
  int stage = 0, parity = 0;
  __device__ void advance() {
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    parity ^= stage == 0;
  }
  __device__ int before() const { return stage == 0 ? S::kStages - 1 : stage - 1; }
};

struct Tile {
  const Output& out;
  int row_tile, m0, n0;  // first row of x, first column of the output

  __device__ Tile(const Params& p, int row_tile_, int column_tile, int tile_m, int tile_n)
      : out(output_of_tile(p, column_tile)),
        row_tile(row_tile_),
        m0(row_tile * tile_m),
        n0((column_tile - out.first_tile) * tile_n) {}
};

// What a block has to do: one tile after another, or its share of the chunks of one.
template <typename S>
struct Share {
  const Params& p;
  int tile, tiles, step;
  int begin, end;  // chunks

  __device__ explicit Share(const Params& params) : p(params) {
    tile = S::kManyTiles ? blockIdx.x : 0;
    tiles = S::kManyTiles ? p.row_tiles * p.column_tiles : 1;
    step = S::kManyTiles ? gridDim.x : 1;
    begin = S::kManyTiles ? 0 : p.chunks * blockIdx.x / p.splits;
    end = S::kManyTiles ? p.chunks : p.chunks * (blockIdx.x + 1) / p.splits;
  }
  // Tiles of the same weight rows come one after another, so that blocks side by side read them from the cache.
  __device__ Tile at(int which) const {
    if constexpr (S::kManyTiles)
      return {p, which % p.row_tiles, which / p.row_tiles, S::kTileM, S::kTileN};
    else
      return {p, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z), S::kTileM, S::kTileN};
  }
};

// One chunk of a tile's weights, as boxes of 64 rows and 64 terms, whose 16-byte pieces are swapped so that eight rows
// of one piece lie in different banks. Rows and terms beyond the edge are zero.
template <typename S>
__device__ inline void fetch_weights(const Tile& tile, const Stages<S>& stages, int stage, int chunk) {
  arrive_expecting(&stages.notes().full[stage], S::kStageBytes);
#pragma unroll
  for (int group = 0; group < S::kGroups; ++group)
#pragma unroll
    for (int box = 0; box < kChunk / kBoxTerms; ++box)
      copy_box(stages.weights(stage) + (group * (kChunk / kBoxTerms) + box) * S::kBoxBytes, &tile.out.map,
               chunk * kChunk + box * kBoxTerms, tile.n0 + group * kGroupRows, &stages.notes().full[stage]);
}

template <typename S>
__device__ inline void fetch_digits(const Params& p, const Tile& tile, const Stages<S>& stages, int stage, int chunk) {
  const std::uint8_t* from = p.digits + (static_cast<std::int64_t>(tile.row_tile) * p.chunks + chunk) * S::kDigitBytes;
  copy_bytes(stages.digits(stage), from, S::kDigitBytes, &stages.notes().full[stage]);
}

// By one thread. Weights are constants, so the first of them are on their way before the kernel that makes the digits
// has finished.
template <typename S>
__device__ inline void produce(const Params& p, const Share<S>& share, const Stages<S>& stages) {
  const Tile first = share.at(share.tile);
  const int ahead = min(S::kStages, share.end - share.begin);
  for (int i = 0; i < ahead; ++i) fetch_weights<S>(first, stages, i, share.begin + i);
  wait_for_previous_kernel();
  for (int i = 0; i < ahead; ++i) fetch_digits<S>(p, first, stages, i, share.begin + i);
  int i = ahead;  // chunks since the start; those of the first tile that are on their way are left out
  for (int t = share.tile; t < share.tiles; t += share.step) {
    const Tile tile = share.at(t);
    for (int chunk = share.begin + (t == share.tile ? ahead : 0); chunk < share.end; ++chunk, ++i) {
      const int stage = i % S::kStages;
      if (i >= S::kStages) wait_phase(&stages.notes().empty[stage], (i / S::kStages - 1) & 1);
      fetch_weights<S>(tile, stages, stage, chunk);
      fetch_digits<S>(p, tile, stages, stage, chunk);
    }
  }
}

}  // namespace reprofuse::cuda::exact1
