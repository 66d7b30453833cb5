// exact-1 on compute capability 9.0: one thread keeps copies of weights and digits in flight, warp groups turn weights
// into digits in registers and multiply them by the activations' digits in shared memory. A tile is some rows of x
// against some weight rows. Blocks that share the K of a tile form a cluster and add their sums through each other's
// shared memory; where tiles are many, blocks that have all of K take one after another.
#pragma once

#include "kernels/cuda/linear_exact1_stages.cuh"

namespace reprofuse::cuda::exact1 {

// The eight products of 32 terms; that of the two lowest digits is left out.
template <int kTileM>
__device__ inline void multiply_terms(int (&sums)[kClasses][kTileM / 2], const std::uint32_t (&w)[kDigits][4],
                                      std::uint64_t digits) {
  constexpr int kPlane = kTileM * kChunk / 16;
  multiply_add<kTileM>(sums[0], w[0], digits);
  multiply_add<kTileM>(sums[1], w[0], digits + kPlane);
  multiply_add<kTileM>(sums[1], w[1], digits);
  multiply_add<kTileM>(sums[2], w[0], digits + 2 * kPlane);
  multiply_add<kTileM>(sums[2], w[1], digits + kPlane);
  multiply_add<kTileM>(sums[2], w[2], digits);
  multiply_add<kTileM>(sums[3], w[1], digits + 2 * kPlane);
  multiply_add<kTileM>(sums[3], w[2], digits + kPlane);
}

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
                               int chunks, int (&sums)[kClasses][S::kTileM / 2]) {
  const int box_row = at.row % kGroupRows;  // and eight rows on, where the pieces are swapped alike
  const int piece = (first_term(0, at.lane % 4) / 8 ^ box_row % 8) * 16;
  const int vector = kept(at.group * (kChunk / kBoxTerms * S::kBoxBytes) + box_row * (kBoxTerms * 2) + piece);
  const std::uint64_t first_digits = operand_of_blocks(shared_address(stages.digits(0)), kChunk * 8);
  std::uint32_t w[2][kDigits][4];
  for (int i = 0; i < chunks; ++i, turn.advance()) {
    wait_phase(&stages.full[turn.stage], turn.parity);
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
      multiply_terms<S::kTileM>(sums, w[step % 2], digits + step * 16);
      commit_products();
      wait_for_products<1>();  // of the step before, whose digits are overwritten next
      if (step == 0 && i > 0 && at.lane == 0) arrive(&stages.empty[turn.before()]);
    }
  }
  wait_for_products<0>();
  if (at.lane == 0) arrive(&stages.empty[turn.before()]);
}

// Calls take(m, n, sum) for each of the thread's sums, m and n within the tile.
template <typename S, typename Take>
__device__ inline void for_each_sum(const Consumer<S>& at, const int (&sums)[kClasses][S::kTileM / 2],
                                    const Take& take) {
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; ++i)
    take(i / 4 * 8 + at.lane % 4 * 2 + i % 2, at.row + i % 4 / 2 * 8,
         combined(sums[0][i], sums[1][i], sums[2][i], sums[3][i]));
}

// Adds up the sums that the blocks of the cluster show, an equal part of the tile in each block, and stores the
// results.
template <typename S>
__device__ inline void store_tile_of_cluster(const Params& p, const Tile& tile, const long long* shown) {
  const int part = S::kTileM * S::kTileN >> p.log2_splits;
  for (int i = blockIdx.x * part + threadIdx.x; i < (blockIdx.x + 1) * part; i += S::kThreads) {
    const int m = i / S::kTileN, n = i % S::kTileN;
    if (tile.m0 + m >= p.m || tile.n0 + n >= tile.out.n) continue;
    const long long* own = shown + m * S::kSumPitch + n;
    long long sum = p.splits == 1 ? *own : 0;
    for (int from = 0; p.splits > 1 && from < p.splits; ++from) sum += load_of_block(own, from);
    store_result(p, tile.out, tile.m0 + m, tile.n0 + n, p.rows[tile.m0 + m], exponent_of(tile.out, tile.n0 + n), sum);
  }
}

// One tile after another, each stored by the threads that have its sums.
template <typename S>
__device__ inline void consume_tiles(const Params& p, const Share<S>& share, const Stages<S>& stages) {
  const Consumer<S> at;
  Turn<S> turn;
  for (int t = share.tile; t < share.tiles; t += share.step) {
    const Tile tile = share.at(t);
    const int exponent = exponent_of(tile.out, tile.n0 + at.row);
    const int exponent8 = exponent_of(tile.out, tile.n0 + at.row + 8);
    int sums[kClasses][S::kTileM / 2] = {};
    consume<S>(stages, turn, at, weight_scale(exponent), weight_scale(exponent8), p.chunks, sums);
    wait_for_previous_kernel();
    for_each_sum<S>(at, sums, [&](int m, int n, long long sum) {
      if (tile.m0 + m < p.m && tile.n0 + n < tile.out.n)
        store_result(p, tile.out, tile.m0 + m, tile.n0 + n, p.rows[tile.m0 + m], n == at.row ? exponent : exponent8,
                     sum);
    });
  }
}

// The block's share of one tile, shown to the cluster.
template <typename S>
__device__ inline void consume_share(const Share<S>& share, const Stages<S>& stages, long long* shown) {
  const Tile tile = share.at(0);
  const Consumer<S> at;
  Turn<S> turn;
  int sums[kClasses][S::kTileM / 2] = {};
  const int n = tile.n0 + at.row;
  consume<S>(stages, turn, at, weight_scale(exponent_of(tile.out, n)), weight_scale(exponent_of(tile.out, n + 8)),
             share.end - share.begin, sums);
  wait_for_previous_kernel();
  sync_consumers<S::kConsumers>();  // the sums take the place of the stages
  for_each_sum<S>(at, sums, [&](int m, int column, long long sum) {
    asm volatile("st.shared.s64 [%0], %1;" ::"r"(shared_address(shown + m * S::kSumPitch + column)), "l"(sum)
                 : "memory");
  });
}

// Bits: equal reference::linear_exact1. Grid: any number of blocks for many tiles, else clusters of p.splits blocks,
// one for each tile.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kBlocks) void linear_wgmma(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) unsigned char shared[];  // pieces are swapped by address
  const Stages<S> stages(shared);
  const Share<S> share(p);
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      init_barrier(&stages.full[i], 1);
      init_barrier(&stages.empty[i], S::kConsumers / kWarp);
    }
    fence_barrier_init();
  }
  __syncthreads();
  let_next_kernel_start();
  auto* shown = reinterpret_cast<long long*>(shared);
  if (threadIdx.x >= S::kConsumers) {
    if constexpr (S::kMoveRegisters) give_registers<S::kProducerRegisters>();
    if (threadIdx.x == S::kConsumers) produce<S>(p, share, stages);
    wait_for_previous_kernel();
    __syncwarp();
  } else {
    if constexpr (S::kMoveRegisters) take_registers<S::kConsumerRegisters>();
    if constexpr (S::kManyTiles)
      consume_tiles<S>(p, share, stages);
    else
      consume_share<S>(share, stages, shown);
  }
  if constexpr (!S::kManyTiles) {
    __syncthreads();
    if (p.splits > 1) sync_cluster();
    store_tile_of_cluster<S>(p, share.at(0), shown);
    if (p.splits > 1) sync_cluster();  // no block may go while another reads from it
  }
}

}  // namespace reprofuse::cuda::exact1
