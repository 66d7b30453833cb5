// Tens of rows and more, and operands that allow no vector loads: a CTA owns a tile_m x tile_n tile, a thread thread_m
// x thread_n of it in registers. Operands come in their own formats, one k-tile ahead in registers or several in shared
// memory that no other thread reads, and are widened from there into tiles that all threads read.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/fma1/epilogue.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda::fma1 {

using reprofuse::fma1::kPadX;

struct TileShape {
  int tile_m, tile_n;        // outputs of a CTA
  int thread_m, thread_n;    // outputs of a thread
  int stages;                // k-tiles in flight at once, a single one into registers
  bool vector_loads = true;  // rows start on 16 bytes and k is a multiple of a vector; else operands come one by one
};

template <typename W_, TileShape kShape>
struct Tiles {
  using W = W_;
  static constexpr int kTileM = kShape.tile_m, kTileN = kShape.tile_n, kM = kShape.thread_m, kN = kShape.thread_n;
  static constexpr int kStages = kShape.stages;
  static constexpr bool kVectorLoads = kShape.vector_loads, kInRegisters = kStages == 1;
  static constexpr int kTileK = 16;  // the loop over it is unrolled and should stay in the instruction cache
  static constexpr int kThreads = (kTileM / kM) * (kTileN / kN);
  // A warp is kLaneM x kLaneN threads, each holding kM / 4 by kN / 4 squares of 4 x 4 outputs.
  static constexpr int kLaneM = kN > 8 ? 8 : 4, kLaneN = 32 / kLaneM;
  static constexpr int kWarpM = kLaneM * kM, kWarpN = kLaneN * kN, kWarpsM = kTileM / kWarpM;
  static constexpr int kVectorX = 4, kVectorW = W::kPerVector;
  static constexpr int kVectorsX = ceil_div(kTileM * kTileK / kVectorX, kThreads);  // of a k-tile, per thread
  static constexpr int kVectorsW = ceil_div(kTileN * kTileK / kVectorW, kThreads);
  static constexpr int kTermsAhead = kM * kN > 32 ? 1 : 2;            // that are read while as many are worked on
  static constexpr int kStrideX = kTileM + 4, kStrideW = kTileN + 4;  // in shared memory, [k][row]
  static constexpr int kBufferFloats = kTileK * (kStrideX + kStrideW);
  static constexpr int kStageBytes = kInRegisters ? 0 : (kVectorsX + kVectorsW) * kThreads * 16;
  static constexpr int kStagesOffset = 2 * kBufferFloats * 4;
  static constexpr int kSharedBytes = kStagesOffset + kStages * kStageBytes;
  static constexpr int kTotalBytes = kTileM * kTileN * 4;
  static_assert(kSegment % kTileK == 0, "a k-tile must not straddle two segments");
  static_assert(kInRegisters || kVectorLoads, "single values cannot be copied past the registers");
  static_assert(kTileM % kWarpM == 0 && kTileN % kWarpN == 0, "a tile is made of whole warps");
  static_assert(kM % 4 == 0 && kN % 4 == 0, "a thread has squares of 4 x 4 outputs");
  // Chains, and the operands of the terms that are read ahead and worked on.
  static_assert(kM * kN + 2 * kTermsAhead * (kM + kN) + 32 <= registers_per_thread(kThreads, 1),
                "a thread's operands and some 32 registers of addresses must fit");
  static_assert(fits_shared(kSharedBytes + kTotalBytes, 1, kMinSmSharedBytes),
                "every supported device must have room for a CTA that folds segments");

  // Lanes that differ in bit 0 share x and those that differ in bit 1 share w: the hardware then serves a 16-byte read
  // of a whole warp in two passes instead of four.
  __device__ static int lane_m(int lane) { return (lane >> 1 & 1) | (lane >> 2 & (kLaneM - 2)); }
  __device__ static int lane_n(int lane) { return (lane & 1) | (lane >> 1 & 2) | (kLaneN == 8 ? lane >> 2 & 4 : 0); }
};

// What a thread brings of one operand. The vectors of a row lie side by side over the lanes, so that loads are
// coalesced; the stores into [k][row] then have two-way bank conflicts, which cost less. Rows beyond the edge repeat
// the last one: their results are not stored.
template <typename S, typename Format, int kTileRows, int kVectors>
struct Operand {
  using Bits = typename Format::Bits;
  static constexpr int kPerRow = S::kTileK / Format::kPerVector;
  static constexpr int kLoads = kTileRows * kPerRow;
  const Bits* from[kVectors];
  uint4 held[S::kInRegisters ? kVectors : 1];

  __device__ Operand(const void* base, std::int64_t stride, int first_row, int rows) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      from[i] = static_cast<const Bits*>(base) + min(first_row + row_of(i), rows - 1) * stride + k_of(i);
  }

  __device__ static int k_of(int i) {
    return (threadIdx.x + i * S::kThreads) % kPerRow * Format::kPerVector;
  }
  __device__ static int row_of(int i) {
    return (threadIdx.x + i * S::kThreads) / kPerRow;
  }
  __device__ static bool has(int i) {
    return kLoads % S::kThreads == 0 || threadIdx.x + i * S::kThreads < kLoads;
  }

  // Where vector i of a stage waits for this thread.
  __device__ static uint4* slot(unsigned char* stage, int i) {
    return reinterpret_cast<uint4*>(stage) + i * S::kThreads + threadIdx.x;
  }

  // Starts to fetch the k-tile at k. kWhole: it lies before k_end.
  template <bool kWhole>
  __device__ void fetch(unsigned char* stage, int k, int k_end) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int left = k_end - k - k_of(i);
      if (!has(i) || (!kWhole && left <= 0)) continue;
      if constexpr (!S::kInRegisters)
        ptx::cp_async(slot(stage, i), from[i] + k);
      else if constexpr (S::kVectorLoads)
        held[i] = __ldg(reinterpret_cast<const uint4*>(from[i] + k));
      else
        held[i] = gather(from[i] + k, left);
    }
  }

  // Widens the k-tile at k into [k][row], with `padding` beyond the end of the row.
  template <bool kWhole, int kStride>
  __device__ void widen(unsigned char* stage, float* to, int k, int k_end, float padding) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!has(i)) continue;
      const int left = kWhole ? Format::kPerVector : k_end - k - k_of(i);
      const uint4 bits = S::kInRegisters ? held[S::kInRegisters ? i : 0] : *slot(stage, i);
#pragma unroll
      for (int e = 0; e < Format::kPerVector; ++e)
        to[(k_of(i) + e) * kStride + row_of(i)] = kWhole || e < left ? Format::element(bits, e) : padding;
    }
  }

 private:
  // The first of the row's values from `at` on, one by one.
  __device__ static uint4 gather(const Bits* at, int left) {
    std::uint32_t words[4] = {};
#pragma unroll
    for (int e = 0; e < Format::kPerVector; ++e)
      if (e < left) words[e * sizeof(Bits) / 4] |= std::uint32_t{at[e]} << (e * sizeof(Bits) % 4 * 8);
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

// Both operands of a tile.
template <typename S>
struct Operands {
  using X = Operand<S, F32Weight, S::kTileM, S::kVectorsX>;
  using W = Operand<S, typename S::W, S::kTileN, S::kVectorsW>;
  X x;
  W w;
  int k_end;

  __device__ void fetch(unsigned char* stage, int k) {
    if (k + S::kTileK <= k_end)
      fetch_k_tile<true>(stage, k);
    else if (k < k_end)
      fetch_k_tile<false>(stage, k);
  }
  __device__ void widen(unsigned char* stage, float* buffer, int k) const {
    if (k + S::kTileK <= k_end)
      widen_k_tile<true>(stage, buffer, k);
    else
      widen_k_tile<false>(stage, buffer, k);
  }

 private:
  static constexpr int kBytesX = S::kVectorsX * S::kThreads * 16;

  template <bool kWhole>
  __device__ void fetch_k_tile(unsigned char* stage, int k) {
    x.template fetch<kWhole>(stage, k, k_end);
    w.template fetch<kWhole>(stage + kBytesX, k, k_end);
  }
  template <bool kWhole>
  __device__ void widen_k_tile(unsigned char* stage, float* buffer, int k) const {
    x.template widen<kWhole, S::kStrideX>(stage, buffer, k, k_end, kPadX);
    w.template widen<kWhole, S::kStrideW>(stage + kBytesX, buffer + S::kTileK * S::kStrideX, k, k_end, 0.0f);
  }
};

// The thread's operands at one k.
template <typename S>
struct Fragment {
  float x[S::kM], w[S::kN];

  __device__ void load(const float* xs, const float* ws, int k) {
#pragma unroll
    for (int i = 0; i < S::kM; i += 4)
      *reinterpret_cast<float4*>(x + i) = *reinterpret_cast<const float4*>(xs + k * S::kStrideX + i * S::kLaneM);
#pragma unroll
    for (int j = 0; j < S::kN; j += 4)
      *reinterpret_cast<float4*>(w + j) = *reinterpret_cast<const float4*>(ws + k * S::kStrideW + j * S::kLaneN);
  }
};

// Advances the thread's chains by one term. They are independent: they go in 2 x 2 squares along a snake, so that each
// step finds half its operands where the last one left them.
template <typename S>
__device__ inline void advance(const Fragment<S>& f, float (&acc)[S::kM][S::kN]) {
#pragma unroll
  for (int j = 0; j < S::kN; j += 2)
#pragma unroll
    for (int step = 0; step < S::kM; step += 2) {
      const int i = j / 2 % 2 == 0 ? step : S::kM - 2 - step;
      acc[i][j] = __fmaf_rn(f.x[i], f.w[j], acc[i][j]);
      acc[i][j + 1] = __fmaf_rn(f.x[i], f.w[j + 1], acc[i][j + 1]);
      acc[i + 1][j + 1] = __fmaf_rn(f.x[i + 1], f.w[j + 1], acc[i + 1][j + 1]);
      acc[i + 1][j] = __fmaf_rn(f.x[i + 1], f.w[j], acc[i + 1][j]);
    }
}

// Advances the chains by the terms of one k-tile, in ascending k.
template <typename S>
__device__ inline void multiply_tile(const float* xs, const float* ws, float (&acc)[S::kM][S::kN]) {
  constexpr int kAhead = S::kTermsAhead;
  Fragment<S> fragments[2 * kAhead];
#pragma unroll
  for (int e = 0; e < kAhead; ++e) fragments[e].load(xs, ws, e);
#pragma unroll
  for (int k = 0; k < S::kTileK; k += kAhead) {
#pragma unroll
    for (int e = kAhead; e < 2 * kAhead; ++e)
      if (k + e < S::kTileK) fragments[(k + e) % (2 * kAhead)].load(xs, ws, k + e);
#pragma unroll
    for (int e = 0; e < kAhead; ++e) advance<S>(fragments[(k + e) % (2 * kAhead)], acc);
  }
}

// Adds the finished segment to the totals, which only this thread touches, and starts the next chain. Totals lie in
// shared memory, because the registers hold the chains.
template <typename S>
__device__ inline void fold_segment(float* totals, bool first, float (&acc)[S::kM][S::kN]) {
#pragma unroll
  for (int i = 0; i < S::kM; ++i)
#pragma unroll
    for (int j = 0; j < S::kN; ++j) {
      float& total = totals[(i * S::kN + j) * S::kThreads + threadIdx.x];
      total = first ? acc[i][j] : __fadd_rn(total, acc[i][j]);
      acc[i][j] = 0.0f;
    }
}

// Bits: equal reference::linear_fma1. Grid: tiles of rows, tiles of columns of all outputs, segments of a split-K.
// One piece: sums stay in registers from the main loop to the epilogue.
template <typename S>
__global__ __launch_bounds__(S::kThreads, 1) void linear_tiles(const __grid_constant__ Params p) {
  // Shared memory: two widened k-tiles, stages, totals
  extern __shared__ __align__(128) float buffers[];
  auto* stages = reinterpret_cast<unsigned char*>(buffers) + S::kStagesOffset;
  float* totals = buffers + S::kSharedBytes / 4;

  // The CTA's tile, and the thread's place in it
  const Output& out = p.outputs[output_index_of_tile(p, blockIdx.y)];
  const int n0 = (blockIdx.y - out.first_tile) * S::kTileN;
  const int m0 = blockIdx.x * S::kTileM;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m = warp % S::kWarpsM * S::kWarpM + S::lane_m(lane) * 4;
  const int n = warp / S::kWarpsM * S::kWarpN + S::lane_n(lane) * 4;
  const int k_begin = p.split_k ? blockIdx.z * kSegment : 0;
  const int k_end = p.split_k ? min(p.k, k_begin + kSegment) : p.k;

  // Prologue
  let_next_kernel_start();
  wait_for_previous_kernel();
  float acc[S::kM][S::kN] = {};
  Operands<S> operands{{p.x, p.x_stride, m0, p.m}, {out.w, out.w_stride, n0, out.n}, k_end};
  // One group of copies per k-tile, empty or not. When all but kStages - 1 are complete, the k-tile to widen is there.
#pragma unroll 1
  for (int stage = 0; stage < S::kStages; ++stage) {
    operands.fetch(stages + stage * S::kStageBytes, k_begin + stage * S::kTileK);
    ptx::cp_async_commit_group();
  }
  ptx::cp_async_wait_group<S::kStages - 1>();
  operands.widen(stages, buffers, k_begin);
  __syncthreads();

  // Main loop: one k-tile is multiplied, the next is widened, those after it are in flight
  int buffer = 0, stage = 0;
#pragma unroll 1
  for (int k = k_begin; k < k_end; k += S::kTileK) {
    operands.fetch(stages + stage * S::kStageBytes, k + S::kStages * S::kTileK);
    ptx::cp_async_commit_group();
    const float* xs = buffers + buffer * S::kBufferFloats;
    multiply_tile<S>(xs + m, xs + S::kTileK * S::kStrideX + n, acc);
    const int k_next = k + S::kTileK;
    if (k_next >= k_end) break;
    if (k_next % kSegment == 0) fold_segment<S>(totals, k_next == kSegment, acc);
    buffer ^= 1;
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    ptx::cp_async_wait_group<S::kStages - 1>();
    operands.widen(stages + stage * S::kStageBytes, buffers + buffer * S::kBufferFloats, k_next);
    __syncthreads();
  }

  // Epilogue: add the last segment to the totals and store
  const bool several = !p.split_k && p.k > kSegment;
#pragma unroll
  for (int i = 0; i < S::kM; ++i)
#pragma unroll
    for (int j = 0; j < S::kN; j += 4) {
      float4 total = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
      if (several) {
        const float* folded = totals + (i * S::kN + j) * S::kThreads + threadIdx.x;
        total.x = __fadd_rn(folded[0], total.x);
        total.y = __fadd_rn(folded[S::kThreads], total.y);
        total.z = __fadd_rn(folded[2 * S::kThreads], total.z);
        total.w = __fadd_rn(folded[3 * S::kThreads], total.w);
      }
      store4(p, out, m0 + m + i / 4 * 4 * S::kLaneM + i % 4, n0 + n + j * S::kLaneN, total);
    }
}

}  // namespace reprofuse::cuda::fma1
