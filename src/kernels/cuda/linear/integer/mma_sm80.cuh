// The frame of kernels with the integer matrix product that every GPU from compute capability 8.0 on has. Weights are
// the left operand, as digits in shared memory or split in registers; digits of x are the right one. A contract brings
// its Contract (exact1/digits.cuh) with Sums<kBlocks, kGroups>, whose of(block, group, i) is a whole sum of 64 bits.
#pragma once

#include "kernels/cuda/linear/integer/mma_stages_sm80.cuh"
#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/runtime/launch.cuh"

namespace reprofuse::cuda::integer {

// Where a warp stands in the tile, and in the steps of a stage.
template <typename S>
struct MmaWarp {
  int lane = threadIdx.x % kWarp;
  int m, n;     // its first rows of x and of weights in the tile
  int k_range;  // which of the ranges of steps that warps have

  __device__ MmaWarp() {
    const int warp = threadIdx.x / kWarp;
    m = warp % S::kWarpsM * (S::kGroups * 8);
    n = warp / S::kWarpsM % S::kWarpsN * (S::kBlocks * 16);
    k_range = warp / (S::kWarpsM * S::kWarpsN);
  }
};

// Makes the left operands of a step, whatever the weights are.
template <typename S>
class LeftOperands {
 public:
  __device__ LeftOperands(const MmaTile<S>& tile, const MmaWarp<S>& warp)
      : warp_(warp),
        scale_(S::Contract::scale(exponent_byte(tile.out, tile.n0 + warp.n + warp.lane / 4))),
        scale8_(S::Contract::scale(exponent_byte(tile.out, tile.n0 + warp.n + warp.lane / 4 + 8))) {}

  __device__ void load(const unsigned char* stage, int step, std::uint32_t (&w)[S::kBlocks][S::kDigits][4]) const {
    if constexpr (S::Weights::kDigits) {
      const unsigned char* piece = stage + step / S::kPieceSteps * S::kWPieceBytes;
#pragma unroll
      for (int d = 0; d < S::kDigits; ++d)
#pragma unroll
        for (int block = 0; block < S::kBlocks; ++block)
          load_weight_digits<S>(piece + d * (S::kWPieceBytes / S::kDigits), warp_.n / 16 + block, step % S::kPieceSteps,
                                w[block][d]);
    } else {
      float terms[kThreadTerms], terms8[kThreadTerms];
      load_terms<S>(stage, warp_.n + warp_.lane / 4, step, terms);
      load_terms<S>(stage, warp_.n + warp_.lane / 4 + 8, step, terms8);
      S::Contract::split(terms, terms8, scale_, scale8_, w[0]);
    }
  }

 private:
  const MmaWarp<S>& warp_;
  float scale_, scale8_;  // of the thread's two rows, where weights come in their format
};

template <typename S>
using MmaSums = typename S::Contract::template Sums<S::kBlocks, S::kGroups>;

// The products of a warp's steps of one stage.
template <typename S>
__device__ inline void multiply_stage(const unsigned char* stage, const MmaWarp<S>& warp,
                                      const LeftOperands<S>& operands, MmaSums<S>& sums) {
  constexpr int kPair = S::kPair;
  const int first = warp.k_range * S::kWarpSteps;  // of the stage
  const unsigned char* x_piece = stage + S::kWBytes + first / S::kPieceSteps * S::kXPieceBytes;
  constexpr int kXPlane = (S::kXPieceBytes - S::kXRestBytes) / S::kDigits;
#pragma unroll
  for (int i = 0; i < S::kWarpSteps; ++i) {
    const int step = first + i;
    std::uint32_t w[S::kBlocks][S::kDigits][4];
    operands.load(stage, step, w);
#pragma unroll
    for (int group = 0; group < S::kGroups; group += kPair) {
      std::uint32_t x[S::kDigits][kPair][2];
#pragma unroll
      for (int d = 0; d < S::kDigits; ++d)
        load_x_digits<S, kPair>(x_piece + d * kXPlane, warp.m / 8 + group, step % S::kPieceSteps, x[d]);
      sums.template add<kPair>(w, x, group);
    }
  }
}

// Sums the products of the CTA's terms. The stage that was multiplied last is filled again while the next ones are
// multiplied: one barrier for each.
template <typename S>
__device__ inline void multiply_stages(const Params& p, const MmaTile<S>& tile, const MmaWarp<S>& warp,
                                       unsigned char* shared, MmaSums<S>& sums) {
  const StepRange steps(p);
  const LeftOperands<S> operands(tile, warp);

  // Prologue
  let_next_kernel_start();
  wait_for_previous_kernel();
#pragma unroll 1
  for (int i = 0; i < S::kStages - 1; ++i) {
    fetch_stage<S>(p, tile, shared + i * S::kStageBytes, steps.begin + i * S::kSteps, steps.end);
    ptx::cp_async_commit_group();
  }

  // Main loop. Where products bind, they come first after the barrier.
  constexpr bool kRefillLate = S::kWarpsM > 1 && S::kStages > 2;
  int at = 0, refilled = S::kStages - 1;  // stages
  for (int step = steps.begin; step < steps.end; step += S::kSteps) {
    ptx::cp_async_wait_group<S::kStages - 2>();
    __syncthreads();
    const auto refill = [&] {
      fetch_stage<S>(p, tile, shared + refilled * S::kStageBytes, step + (S::kStages - 1) * S::kSteps, steps.end);
      ptx::cp_async_commit_group();
    };
    if (!kRefillLate) refill();
    const unsigned char* stage = shared + at * S::kStageBytes;
    const int own = step + warp.k_range * S::kWarpSteps;
    if (S::kPieces == 1 || own < steps.end) {
      multiply_stage<S>(stage, warp, operands, sums);
      const int next = own + S::kSteps;  // of this warp
      const int piece = warp.k_range * S::kWarpSteps / S::kPieceSteps;
      sums.finish_stage(own, next < steps.end ? next : -1,
                        stage + S::kWBytes + (piece + 1) * S::kXPieceBytes - S::kXRestBytes, warp.m);
    }
    if (kRefillLate) refill();
    refilled = at;
    at = at + 1 == S::kStages ? 0 : at + 1;
  }
  ptx::cp_async_wait_group<0>();
}

// A result, or a partial where CTAs share K.
template <typename S>
__device__ inline void store_sum(const Params& p, const MmaTile<S>& tile, int m, int n, long long sum) {
  if (m >= p.m || n >= tile.out.n) return;
  if (p.splits > 1) {
    p.partials[(std::int64_t{blockIdx.y} * p.m + m) * p.columns + tile.out.first_column + n] = sum;
  } else {
    const auto& row = static_cast<const typename S::Contract::Row*>(p.rows)[m];
    store_result(p, tile.out, m, Column(tile.out, n), row, sum - S::Contract::offset(row));
  }
}

// Calls store(m, n, sum) for every sum of the thread; m and n are those of the tile.
template <typename S, typename Store>
__device__ inline void for_each_sum(const MmaWarp<S>& warp, const MmaSums<S>& sums, const Store& store) {
#pragma unroll
  for (int block = 0; block < S::kBlocks; ++block)
#pragma unroll
    for (int group = 0; group < S::kGroups; ++group)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        store(warp.m + group * 8 + warp.lane % 4 * 2 + i % 2, warp.n + block * 16 + warp.lane / 4 + i / 2 * 8,
              sums.of(block, group, i));
}

// Warps that share the steps add their sums in shared memory.
template <typename S>
__device__ inline void store_shared_sums(const Params& p, const MmaTile<S>& tile, const MmaWarp<S>& warp,
                                         unsigned char* shared, const MmaSums<S>& sums) {
  auto* exchanged = reinterpret_cast<long long*>(shared);
  constexpr int kSums = S::kTileM * S::kSumPitch;
  __syncthreads();
  for_each_sum<S>(warp, sums,
                  [&](int m, int n, long long sum) { exchanged[warp.k_range * kSums + m * S::kSumPitch + n] = sum; });
  __syncthreads();
  for (int i = threadIdx.x; i < S::kTileM * S::kTileN; i += S::kThreads) {
    const int m = i / S::kTileN, n = i % S::kTileN;
    long long sum = 0;
#pragma unroll
    for (int range = 0; range < S::kWarpsK; ++range) sum += exchanged[range * kSums + m * S::kSumPitch + n];
    store_sum<S>(p, tile, tile.m0 + m, tile.n0 + n, sum);
  }
}

// All that a CTA does. Grid: tiles of rows by tiles of columns, splits.
template <typename S>
__device__ inline void multiply_tile(const Params& p, unsigned char* shared) {
  const MmaTile<S> tile(p);
  const MmaWarp<S> warp;
  MmaSums<S> sums;
  multiply_stages<S>(p, tile, warp, shared, sums);
  if constexpr (S::kWarpsK > 1)
    store_shared_sums<S>(p, tile, warp, shared, sums);
  else
    for_each_sum<S>(warp, sums,
                    [&](int m, int n, long long sum) { store_sum<S>(p, tile, tile.m0 + m, tile.n0 + n, sum); });
}

// What a schedule knows of such a kernel.
template <typename S>
Kernel mma_kernel(const char* name, const void* function, DigitCost cost, int max_k_tiles) {
  return {.name = name,
          .function = function,
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = S::kSharedBytes,
          .vector_loads = S::Weights::kVectorLoads,
          .split_k = SplitK::kWorkspace,
          .cost = {},
          .max_k_tiles = max_k_tiles,
          .mma_sync = true,
          .takes_digits = S::Weights::kDigits,
          .digit_cost = cost};
}

// The shapes for weights in their format, and for few rows of x, by their rows of x and weight rows: a CTA has two to
// four weight rows for each row of x, so that digits of x take little of what the L2 gives, and a stage has 16 KiB of
// 16-bit weights.
inline constexpr MmaShape k8x32{.tile_m = 8,
                                .tile_n = 32,
                                .warps_m = 1,
                                .warps_n = 2,
                                .warps_k = 4,
                                .stage_steps = 8,
                                .stages = 4,
                                .ctas_per_sm = 2};
inline constexpr MmaShape k16x64{.tile_m = 16,
                                 .tile_n = 64,
                                 .warps_m = 1,
                                 .warps_n = 4,
                                 .warps_k = 2,
                                 .stage_steps = 4,
                                 .stages = 4,
                                 .ctas_per_sm = 2};
inline constexpr MmaShape k32x64{.tile_m = 32,
                                 .tile_n = 64,
                                 .warps_m = 1,
                                 .warps_n = 4,
                                 .warps_k = 2,
                                 .stage_steps = 4,
                                 .stages = 4,
                                 .ctas_per_sm = 2};
inline constexpr MmaShape k32x128{.tile_m = 32,
                                  .tile_n = 128,
                                  .warps_m = 1,
                                  .warps_n = 8,
                                  .warps_k = 1,
                                  .stage_steps = 2,
                                  .stages = 4,
                                  .ctas_per_sm = 2};
inline constexpr MmaShape k64x128{.tile_m = 64,
                                  .tile_n = 128,
                                  .warps_m = 1,
                                  .warps_n = 8,
                                  .warps_k = 1,
                                  .stage_steps = 2,
                                  .stages = 4,
                                  .ctas_per_sm = 1};

}  // namespace reprofuse::cuda::integer
