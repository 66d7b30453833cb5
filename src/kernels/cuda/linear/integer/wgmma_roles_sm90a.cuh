// The warp roles of the kernels of compute capability 9.0: how a math thread reads its weights, and how sums become
// results. A contract's Sums has of(i): a whole sum of 64 bits.
#pragma once

#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/linear/integer/wgmma_pipeline_sm90a.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/ptx/sm90.cuh"

namespace reprofuse::cuda::integer {

template <typename W>
__device__ inline void load_terms(const unsigned char* shared, float (&terms)[kThreadTerms]) {
  const uint4 vector = *reinterpret_cast<const uint4*>(shared);
#pragma unroll
  for (int i = 0; i < kThreadTerms; ++i) terms[i] = W::element(vector, i);
}

// Where a math thread stands: rows `row` and `row` + 8 of the tile's weights.
template <typename S>
struct MathThread {
  int lane = threadIdx.x % kWarp;
  int group = threadIdx.x / kWarpgroup;
  int row = threadIdx.x / kWarp * 16 + lane / 4;
};

// A value that is the same in all threads of a warp: the compiler may take a uniform register.
__device__ inline int warp_uniform(int value) {
  return __shfl_sync(~0u, value, 0);
}

// Keeps a value in a register where the compiler would rather compute it again in every turn of a loop.
__device__ inline int keep_in_register(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// How a math thread reads its weights and finds the digits of x, by stage.
template <typename S>
struct Operands {
  using Descriptor = ptx::SharedMemoryDescriptor;
  const WgmmaShared<S>& shared;
  int vector;            // of the thread's first weights in a stage
  std::uint64_t digits;  // of the first stage

  __device__ Operands(const WgmmaShared<S>& shared_, const MathThread<S>& own) : shared(shared_) {
    const int box_row = own.row % kWarpgroupRows;  // and eight rows on, which are swizzled alike
    const int swizzled = (first_term(0, own.lane % 4) / 8 ^ box_row % 8) * 16;
    vector = keep_in_register(own.group * (kTileK / kBoxTerms * S::kBoxBytes) + box_row * (kBoxTerms * 2) + swizzled);
    digits = Descriptor{.start_address = ptx::shared_address(shared.digits(0)),
                        .leading_byte_offset = Descriptor::kCoreMatrixBytes,
                        .stride_byte_offset = kTileK * 8}
                 .word();
  }
  // Of rows r and r + 8. Steps come in pairs that share a box; the second takes the neighbouring vector.
  __device__ void load_weights(int stage, int step, float (&terms)[kThreadTerms], float (&terms8)[kThreadTerms]) const {
    const unsigned char* from = shared.weights(stage) + step / 2 * S::kBoxBytes + (vector ^ step % 2 * 16);
    load_terms<typename S::W>(from, terms);
    load_terms<typename S::W>(from + 8 * kBoxTerms * 2, terms8);
  }
  __device__ std::uint64_t digits_of(int stage, int step) const {
    return digits + stage * Descriptor::advance(S::kStageBytes) +
           step * Descriptor::advance(2 * Descriptor::kCoreMatrixBytes);
  }
};

// Calls take(m, n, sum) for each of the thread's sums, m and n within the tile.
template <typename S, typename Sums, typename Take>
__device__ inline void for_each_sum(const MathThread<S>& own, const Sums& sums, const Take& take) {
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; ++i)
    take(i / 4 * 8 + own.lane % 4 * 2 + i % 2, own.row + i % 4 / 2 * 8, sums.of(i));
}

// Rounds and stores a tile from the threads that have its sums, less the row's offset.
template <typename S, typename Sums, typename Offset>
__device__ inline void store_tile(const Params& p, const WgmmaTile& tile, const MathThread<S>& own, const Sums& sums,
                                  const Offset& offset) {
  const Column column(tile.out, tile.n0 + own.row), column8(tile.out, tile.n0 + own.row + 8);
  const auto* rows = static_cast<const typename S::Row*>(p.rows) + tile.m0;
  for_each_sum<S>(own, sums, [&](int m, int n, long long sum) {
    if (tile.m0 + m < p.m && tile.n0 + n < tile.out.n)
      store_result(p, tile.out, tile.m0 + m, n == own.row ? column : column8, rows[m], sum - offset(rows[m]));
  });
}

// Two neighbouring sums of some rows over the CTAs of the cluster, all loads in flight at once.
template <int kRows>
__device__ inline void sums_of_cluster(const Params& p, const long long* const (&exchanged)[kRows],
                                       longlong2 (&sums)[kRows]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) sums[row] = *reinterpret_cast<const longlong2*>(exchanged[row]);
  if (p.splits == 1) return;
  longlong2 others[kMaxSplits - 1][kRows];
#pragma unroll
  for (int i = 0; i < kMaxSplits - 1; ++i) {
    const unsigned rank = blockIdx.x + 1 + i;
#pragma unroll
    for (int row = 0; row < kRows; ++row)
      others[i][row] = i < p.splits - 1
                           ? ptx::ld_shared_cluster(exchanged[row], rank < p.splits ? rank : rank - p.splits)
                           : longlong2{0, 0};
  }
#pragma unroll
  for (const auto& of_cta : others)
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      sums[row].x += of_cta[row].x;
      sums[row].y += of_cta[row].y;
    }
}

// Adds the sums in the shared memory of all CTAs of the cluster and stores the results: each CTA every so many rows of
// the tile, each thread two neighbouring columns.
template <typename S, typename Shared>
__device__ inline void store_rows_of_cluster(const Params& p, const WgmmaTile& tile, const Shared& shared) {
  constexpr int kPairs = S::kTileN / 2, kRows = S::kMathThreads / kPairs;
  constexpr int kAtOnce = S::kTileM < 64 ? 2 : 4;  // rows of a thread in flight
  const auto& state = shared.state();
  const int n = threadIdx.x % kPairs * 2, left = tile.out.n - tile.n0 - n;  // columns
  if (left <= 0) return;
  const int rows = min(p.m - tile.m0, S::kTileM);
  const auto* exchanged = reinterpret_cast<const long long*>(shared.memory) + n;
  const Column first(tile.out, tile.n0 + n, state.exponents[n]);
  const Column second(tile.out, tile.n0 + n + 1, state.exponents[n + 1]);
  const bool together = left > 1 && stores_pairs(tile.out);
  const auto store = [&](int m, const longlong2& sum) {
    const float y = rounded(p, tile.out, tile.m0 + m, first, state.rows[m], sum.x);
    const float y1 = left > 1 ? rounded(p, tile.out, tile.m0 + m, second, state.rows[m], sum.y) : 0.0f;
    float* to = tile.out.y + (tile.m0 + m) * tile.out.y_stride + tile.n0 + n;
    if (together) {
      *reinterpret_cast<float2*>(to) = make_float2(y, y1);
    } else {
      to[0] = y;
      if (left > 1) to[1] = y1;
    }
  };
  const int step = kRows * p.splits;
  for (int m = blockIdx.x + threadIdx.x / kPairs * p.splits; m < rows; m += kAtOnce * step) {
    const long long* from[kAtOnce];
    longlong2 sums[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) from[i] = exchanged + (m + i * step < rows ? m + i * step : m) * S::kSumPitch;
    sums_of_cluster(p, from, sums);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (m + i * step < rows) store(m + i * step, sums[i]);
  }
}

// What store_rows_of_cluster() needs to know of the tile's rows and columns, read while there is time.
template <typename S, typename State>
__device__ inline void load_epilogue_state(const Params& p, const WgmmaTile& tile, State& state) {
  const int i = threadIdx.x;
  if (i < S::kTileN) state.exponents[i] = exponent_byte(tile.out, tile.n0 + i);
  wait_for_previous_kernel();
  if (i < S::kTileM && tile.m0 + i < p.m) state.rows[i] = static_cast<const typename S::Row*>(p.rows)[tile.m0 + i];
}

// Leaves the CTA's sums, less the row's offset in them, in distributed shared memory, in place of the stages, and
// stores its rows of the results.
template <typename S, typename Shared, typename Sums, typename Offset>
__device__ inline void exchange_sums(const Params& p, const WgmmaTile& tile, const Shared& shared,
                                     const MathThread<S>& own, const Sums& sums, const Offset& offset) {
  ptx::named_barrier_sync<S::kMathThreads>(1);
  auto* exchanged = reinterpret_cast<long long*>(shared.memory);
  for_each_sum<S>(own, sums, [&](int m, int column, long long sum) {
    asm volatile("st.shared.s64 [%0], %1;" ::"r"(ptx::shared_address(exchanged + m * S::kSumPitch + column)),
                 "l"(sum - offset(shared.state().rows[m]))
                 : "memory");
  });
  __syncthreads();  // with the producer, which meets the cluster too
  if (p.splits > 1) ptx::cluster_sync();
  store_rows_of_cluster<S>(p, tile, shared);
  if (p.splits > 1) ptx::cluster_sync();  // no CTA may go while another reads from it
}

// The producer in the epilogue of exchange_sums(): it has nothing to store, but no barrier may miss it.
__device__ inline void meet_math_threads(const Params& p) {
  __syncthreads();
  if (p.splits == 1) return;
  ptx::cluster_sync();
  ptx::cluster_sync();
}

// Barriers and warp roles: `multiply` is what the math threads do.
template <typename S, typename Multiply>
__device__ inline void run_roles(const Params& p, const TileScheduler<S>& scheduler, const WgmmaShared<S>& shared,
                                 const Multiply& multiply) {
  // Initialize barriers
  if (threadIdx.x == 0) {
    shared.pipeline().init(1, S::kMathThreads / kWarp);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= S::kMathThreads) {
    // TMA thread
    if constexpr (S::kMoveRegisters) ptx::setmaxnreg_dec<S::kProducerRegisters>();
    if (threadIdx.x == S::kMathThreads) load_stages<S>(p, scheduler, shared);
    wait_for_previous_kernel();
    __syncwarp();
    if constexpr (!S::kPersistent) meet_math_threads(p);
  } else {
    // Math warpgroups
    if constexpr (S::kMoveRegisters) ptx::setmaxnreg_inc<S::kMathRegisters>();
    multiply();
  }
}

// What a schedule knows of such a kernel, but for its function.
template <typename S>
Kernel wgmma_kernel(const char* name, Cost cost, int max_k_tiles) {
  return {.name = name,
          .function = nullptr,
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = WgmmaShared<S>::kBytes,
          .vector_loads = true,
          .split_k = S::kPersistent ? SplitK::kNone : SplitK::kCluster,
          .cost = cost,
          .max_k_tiles = max_k_tiles,
          .takes_digits = S::kPrepared};
}

}  // namespace reprofuse::cuda::integer
