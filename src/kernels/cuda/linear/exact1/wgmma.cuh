// exact-1 on compute capability 9.0: one thread keeps copies of weights and digits in flight, warp groups turn weights
// into digits in registers and multiply them by the activations' digits in shared memory. A tile is some rows of x
// against some weight rows. Blocks that share the K of a tile form a cluster and add their sums through each other's
// shared memory; where tiles are many, blocks that have all of K take one after another.
#pragma once

#include "kernels/cuda/linear/exact1/stages.cuh"

namespace reprofuse::cuda::exact1 {

// Sums of the eight products of digits, by class; that of the two lowest digits is left out.
template <typename S, bool kAtOnce = (S::kTileM <= 16)>
struct Sums {
  int classes[kClasses][S::kTileM / 2] = {};

  // The products of 32 terms.
  __device__ void add(const std::uint32_t (&w)[kDigits][4], std::uint64_t digits) {
    constexpr int kTileM = S::kTileM, kPlane = S::kPlaneBytes / 16;
    multiply_add<kTileM>(classes[0], w[0], digits);
    multiply_add<kTileM>(classes[1], w[0], digits + kPlane);
    multiply_add<kTileM>(classes[1], w[1], digits);
    multiply_add<kTileM>(classes[2], w[0], digits + 2 * kPlane);
    multiply_add<kTileM>(classes[2], w[1], digits + kPlane);
    multiply_add<kTileM>(classes[2], w[2], digits);
    multiply_add<kTileM>(classes[3], w[1], digits + 2 * kPlane);
    multiply_add<kTileM>(classes[3], w[2], digits + kPlane);
  }
  __device__ int of(int c, int i) const { return classes[c][i]; }
};

// With few rows of x an instruction takes longer to issue than to compute: a digit of the weights meets all digits of x
// at once, as if they were rows of their own.
template <typename S>
struct Sums<S, true> {
  static constexpr int kOne = S::kTileM / 2;
  int high[3 * kOne] = {}, middle[3 * kOne] = {}, low[2 * kOne] = {};

  __device__ void add(const std::uint32_t (&w)[kDigits][4], std::uint64_t digits) {
    multiply_add<3 * S::kTileM>(high, w[0], digits);
    multiply_add<3 * S::kTileM>(middle, w[1], digits);
    multiply_add<2 * S::kTileM>(low, w[2], digits);
  }
  __device__ int of(int c, int i) const {
    if (c == 0) return high[i];
    if (c == 1) return high[kOne + i] + middle[i];
    if (c == 2) return high[2 * kOne + i] + middle[kOne + i] + low[i];
    return middle[2 * kOne + i] + low[kOne + i];
  }
};

template <typename W>
__device__ inline void load_terms(const unsigned char* shared, float (&terms)[kThreadTerms]) {
  const uint4 vector = *reinterpret_cast<const uint4*>(shared);
#pragma unroll
  for (int i = 0; i < kThreadTerms; ++i) terms[i] = W::element(vector, i);
}

// Where a consumer stands: rows `row` and `row` + 8 of the tile's weights.
template <typename S>
struct Consumer {
  int lane = threadIdx.x % kWarp;
  int group = threadIdx.x / kGroupThreads;
  int row = threadIdx.x / kWarp * 16 + lane / 4;
};

// Keeps a value in a register where the compiler would rather compute it again in every turn of a loop.
__device__ inline int kept(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Sums the products of `chunks` chunks and gives their stages back.
template <typename S>
__device__ inline void consume(const Stages<S>& stages, Turn<S>& turn, const Consumer<S>& at, float scale, float scale8,
                               int chunks, Sums<S>& sums) {
  const int box_row = at.row % kGroupRows;  // and eight rows on, where the pieces are swapped alike
  const int piece = (first_term(0, at.lane % 4) / 8 ^ box_row % 8) * 16;
  const int vector = kept(at.group * (kChunk / kBoxTerms * S::kBoxBytes) + box_row * (kBoxTerms * 2) + piece);
  const std::uint64_t first_digits = operand_of_blocks(shared_address(stages.digits(0)), kChunk * 8);
  Notes<S>& notes = stages.notes();
  std::uint32_t w[2][kDigits][4];
  for (int i = 0; i < chunks; ++i, turn.advance()) {
    wait_phase(&notes.full[turn.stage], turn.parity);
    const std::uint64_t digits = first_digits + turn.stage * (S::kStageBytes / 16);
#pragma unroll
    for (int step = 0; step < kChunk / 32; ++step) {
      // Steps come in pairs that share a box; the second takes the neighbouring piece.
      const unsigned char* own_vector = stages.weights(turn.stage) + step / 2 * S::kBoxBytes + (vector ^ step % 2 * 16);
      float own[kThreadTerms], own8[kThreadTerms];
      load_terms<typename S::W>(own_vector, own);
      load_terms<typename S::W>(own_vector + 8 * kBoxTerms * 2, own8);
      split_weights(own, own8, scale, scale8, w[step % 2]);
      fence_products();
      sums.add(w[step % 2], digits + step * 16);
      commit_products();
      wait_for_products<1>();  // of the step before, whose digits are overwritten next
      if (step == 0 && i > 0 && at.lane == 0) arrive(&notes.empty[turn.before()]);
    }
  }
  wait_for_products<0>();
  if (at.lane == 0) arrive(&notes.empty[turn.before()]);
}

// Calls take(m, n, sum) for each of the thread's sums, m and n within the tile.
template <typename S, typename Take>
__device__ inline void for_each_sum(const Consumer<S>& at, const Sums<S>& sums, const Take& take) {
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; ++i)
    take(i / 4 * 8 + at.lane % 4 * 2 + i % 2, at.row + i % 4 / 2 * 8,
         combined(sums.of(0, i), sums.of(1, i), sums.of(2, i), sums.of(3, i)));
}

// Two neighbouring sums over the blocks of the cluster, all on their way at once.
__device__ inline longlong2 sum_of_cluster(const Params& p, const long long* shown) {
  longlong2 sum = *reinterpret_cast<const longlong2*>(shown);
  if (p.splits == 1) return sum;
  longlong2 others[kMostSplits - 1];
#pragma unroll
  for (int i = 0; i < kMostSplits - 1; ++i) {
    const unsigned rank = blockIdx.x + 1 + i;
    others[i] = i < p.splits - 1 ? load_of_block(shown, rank < p.splits ? rank : rank - p.splits) : longlong2{0, 0};
  }
#pragma unroll
  for (const longlong2& other : others) {
    sum.x += other.x;
    sum.y += other.y;
  }
  return sum;
}

// Adds up the sums that the blocks of the cluster show and stores the results: every so many rows of the tile in each
// block, two neighbouring columns in each thread.
template <typename S>
__device__ inline void store_rows_of_cluster(const Params& p, const Tile& tile, const Stages<S>& stages) {
  constexpr int kPairs = S::kTileN / 2, kRows = S::kConsumers / kPairs;
  const Notes<S>& notes = stages.notes();
  const int n = threadIdx.x % kPairs * 2, left = tile.out.n - tile.n0 - n;  // columns
  if (left <= 0) return;
  const int rows = min(p.m - tile.m0, S::kTileM);
  const auto* shown = reinterpret_cast<const long long*>(stages.memory) + n;
  const Column first(tile.out, tile.n0 + n, notes.exponents[n]);
  const Column second(tile.out, tile.n0 + n + 1, notes.exponents[n + 1]);
  const bool together = left > 1 && stores_pairs(tile.out);
  for (int m = blockIdx.x + threadIdx.x / kPairs * p.splits; m < rows; m += kRows * p.splits) {
    const longlong2 sum = sum_of_cluster(p, shown + m * S::kSumPitch);
    const float y = rounded(p, tile.out, tile.m0 + m, first, notes.rows[m], sum.x);
    const float y1 = left > 1 ? rounded(p, tile.out, tile.m0 + m, second, notes.rows[m], sum.y) : 0.0f;
    float* to = tile.out.y + (tile.m0 + m) * tile.out.y_stride + tile.n0 + n;
    if (together) {
      *reinterpret_cast<float2*>(to) = make_float2(y, y1);
    } else {
      to[0] = y;
      if (left > 1) to[1] = y1;
    }
  }
}

// One tile after another, each stored by the threads that have its sums.
template <typename S>
__device__ inline void consume_tiles(const Params& p, const Share<S>& share, const Stages<S>& stages) {
  const Consumer<S> at;
  Turn<S> turn;
  for (int t = share.tile; t < share.tiles; t += share.step) {
    const Tile tile = share.at(t);
    const Column column(tile.out, tile.n0 + at.row), column8(tile.out, tile.n0 + at.row + 8);
    Sums<S> sums;
    consume<S>(stages, turn, at, weight_scale(column.exponent), weight_scale(column8.exponent), p.chunks, sums);
    wait_for_previous_kernel();
    const Row* rows = p.rows + tile.m0;
    for_each_sum<S>(at, sums, [&](int m, int n, long long sum) {
      if (tile.m0 + m < p.m && tile.n0 + n < tile.out.n)
        store_result(p, tile.out, tile.m0 + m, n == at.row ? column : column8, rows[m], sum - rows[m].offset);
    });
  }
}

// What store_rows_of_cluster() needs to know of the tile's rows and columns, noted while there is time. The first block
// takes the bias of the weights out for all.
template <typename S>
__device__ inline void take_notes(const Params& p, const Tile& tile, Notes<S>& notes) {
  const int i = threadIdx.x;
  if (i < S::kTileN) notes.exponents[i] = exponent_of(tile.out, tile.n0 + i);
  wait_for_previous_kernel();
  if (i >= S::kTileM || tile.m0 + i >= p.m) return;
  Row row = p.rows[tile.m0 + i];
  if (blockIdx.x != 0) row.offset = 0;
  notes.rows[i] = row;
}

// The block's share of one tile, shown to the cluster; then its part of the results.
template <typename S>
__device__ inline void consume_share(const Params& p, const Share<S>& share, const Stages<S>& stages) {
  const Tile tile = share.at(0);
  const Consumer<S> at;
  Turn<S> turn;
  const int n = tile.n0 + at.row;
  const float scale = weight_scale(exponent_of(tile.out, n)), scale8 = weight_scale(exponent_of(tile.out, n + 8));
  take_notes<S>(p, tile, stages.notes());
  Sums<S> sums;
  consume<S>(stages, turn, at, scale, scale8, share.end - share.begin, sums);
  sync_consumers<S::kConsumers>();  // the sums take the place of the stages
  auto* shown = reinterpret_cast<long long*>(stages.memory);
  for_each_sum<S>(at, sums, [&](int m, int column, long long sum) {
    asm volatile("st.shared.s64 [%0], %1;" ::"r"(shared_address(shown + m * S::kSumPitch + column)),
                 "l"(sum - stages.notes().rows[m].offset)
                 : "memory");
  });
  __syncthreads();  // with the producer, which meets the cluster too
  if (p.splits > 1) sync_cluster();
  store_rows_of_cluster<S>(p, tile, stages);
  if (p.splits > 1) sync_cluster();  // no block may go while another reads from it
}

// The producer's part in consume_share(): it has nothing to store, but no barrier may miss it.
__device__ inline void meet_consumers(const Params& p) {
  __syncthreads();
  if (p.splits == 1) return;
  sync_cluster();
  sync_cluster();
}

template <typename S>
__device__ inline void start_notes(Notes<S>& notes) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      init_barrier(&notes.full[i], 1);
      init_barrier(&notes.empty[i], S::kConsumers / kWarp);
    }
    fence_barrier_init();
  }
}

// Bits: equal reference::linear_exact1. Grid: any number of blocks for many tiles, else clusters of p.splits blocks,
// one for each tile.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kBlocks) void linear_wgmma(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char shared[];  // pieces are swapped by address
  const Stages<S> stages(shared);
  const Share<S> share(p);
  start_notes<S>(stages.notes());
  __syncthreads();
  let_next_kernel_start();
  if (threadIdx.x >= S::kConsumers) {
    if constexpr (S::kMoveRegisters) give_registers<S::kProducerRegisters>();
    if (threadIdx.x == S::kConsumers) produce<S>(p, share, stages);
    wait_for_previous_kernel();
    __syncwarp();
    if constexpr (!S::kManyTiles) meet_consumers(p);
  } else {
    if constexpr (S::kMoveRegisters) take_registers<S::kConsumerRegisters>();
    if constexpr (S::kManyTiles)
      consume_tiles<S>(p, share, stages);
    else
      consume_share<S>(p, share, stages);
  }
}

}  // namespace reprofuse::cuda::exact1
