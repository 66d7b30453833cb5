// Decode: a thread owns thread_n weight rows and thread_m rows of x, and walks k. Both operands stream through shared
// memory with cp.async, in their own formats and layouts, several k-tiles ahead, so 16-bit weights stay 16 bits wide
// until a register widens them.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/fma1/epilogue.cuh"
#include "kernels/cuda/ptx/sm80.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda::fma1 {

struct RowsShape {
  int thread_m, thread_n;  // outputs of a thread
  int groups_m;            // of threads, each with rows of x of its own
  int threads;
  int stages;  // k-tiles in shared memory
};

template <typename W_, RowsShape kShape>
struct Rows {
  using W = W_;
  static constexpr int kM = kShape.thread_m, kRows = kShape.thread_n, kThreads = kShape.threads;
  static constexpr int kStages = kShape.stages;
  static constexpr int kLanes = kThreads / kShape.groups_m;  // threads side by side over weight rows
  static constexpr int kTileM = kM * kShape.groups_m;
  static constexpr int kTileN = kLanes * kRows;
  static constexpr int kTileBytes = 128;  // of a weight row
  static constexpr int kTileK = kTileBytes / sizeof(typename W::Bits);
  static constexpr int kVectors = kTileBytes / 16;   // of a weight row in one tile
  static constexpr int kRowBytes = kTileBytes + 16;  // padded: 16-byte reads of 8 rows have no bank conflicts
  static constexpr int kStageBytes = kTileN * kRowBytes + kTileM * kTileK * 4;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kSegment % kTileK == 0, "a k-tile must not straddle two segments");
  static_assert(kTileN * kVectors % kThreads == 0, "every thread brings as many vectors of weights");
  // Chains and totals, a vector of each weight row, four terms of each row of x.
  static_assert(2 * kM * kRows + 4 * kRows + 4 * kM + 24 <= registers_per_thread(kThreads, 1),
                "a thread's operands and some 24 registers of addresses must fit");
  static_assert(fits_shared(kSharedBytes, 1, kSmSharedBytesSm80), "8.0 must have room for the stages; others may not");
};

// Bring k-tile [k, k + kTileK) of the CTA's weight rows, and of x, into one stage. Rows beyond the edge repeat the
// last one: their results are not stored. k is a multiple of a vector, so a vector is whole or absent.
template <typename S>
__device__ inline void fetch_weights(const Params& p, const Output& out, unsigned char* stage, int n0, int k) {
#pragma unroll
  for (int i = 0; i < S::kTileN * S::kVectors / S::kThreads; ++i) {
    const int at = threadIdx.x + i * S::kThreads;
    const int row = at / S::kVectors, vector = at % S::kVectors;
    const int kv = k + vector * S::W::kPerVector;
    const auto* w = static_cast<const typename S::W::Bits*>(out.w) + min(n0 + row, out.n - 1) * out.w_stride + kv;
    if (kv < p.k) ptx::cp_async(stage + row * S::kRowBytes + vector * 16, w);
  }
}

template <typename S>
__device__ inline void fetch_x(const Params& p, unsigned char* stage, int m0, int k) {
  auto* xs = reinterpret_cast<float*>(stage + S::kTileN * S::kRowBytes);  // [kTileM][kTileK]
  for (int at = threadIdx.x; at < S::kTileM * S::kTileK / 4; at += S::kThreads) {
    const int m = at / (S::kTileK / 4), kx = at % (S::kTileK / 4) * 4;
    if (k + kx < p.k) ptx::cp_async(xs + at * 4, p.x + min(m0 + m, p.m - 1) * p.x_stride + k + kx);
  }
}

// One vector of k: kRows x kM chains advance by kPerVector terms, in ascending k.
template <typename S>
__device__ inline void advance(const unsigned char* rows, const float* xs, int vector, float (&acc)[S::kRows][S::kM]) {
  uint4 w[S::kRows];
#pragma unroll
  for (int r = 0; r < S::kRows; ++r)
    w[r] = *reinterpret_cast<const uint4*>(rows + r * S::kLanes * S::kRowBytes + vector * 16);
#pragma unroll
  for (int term = 0; term < S::W::kPerVector; term += 4) {
    uint4 x[S::kM];
#pragma unroll
    for (int m = 0; m < S::kM; ++m)
      x[m] = *reinterpret_cast<const uint4*>(xs + m * S::kTileK + vector * S::W::kPerVector + term);
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int r = 0; r < S::kRows; ++r) {
        const float wide = S::W::element(w[r], term + e);
#pragma unroll
        for (int m = 0; m < S::kM; ++m) acc[r][m] = __fmaf_rn(F32Weight::element(x[m], e), wide, acc[r][m]);
      }
  }
}

// Ends a chain: adds it to the total in ascending order of segments, and starts the next from +0.
template <typename S>
__device__ inline void fold_segment(bool first, float (&acc)[S::kRows][S::kM], float (&total)[S::kRows][S::kM]) {
#pragma unroll
  for (int r = 0; r < S::kRows; ++r)
#pragma unroll
    for (int m = 0; m < S::kM; ++m) {
      total[r][m] = first ? acc[r][m] : __fadd_rn(total[r][m], acc[r][m]);
      acc[r][m] = 0.0f;
    }
}

// Bits: equal reference::linear_fma1. Grid: tiles of rows, tiles of columns of all outputs, segments of a split-K.
// One piece: sums stay in registers from the main loop to the epilogue.
template <typename S>
__global__ __launch_bounds__(S::kThreads) void linear_rows(const __grid_constant__ Params p) {
  // Shared memory: stages of weights and x
  extern __shared__ __align__(128) unsigned char shared[];

  // The CTA's tile, and the thread's place in it
  const Output& out = p.outputs[output_index_of_tile(p, blockIdx.y)];
  const int n0 = (blockIdx.y - out.first_tile) * S::kTileN;
  const int m0 = blockIdx.x * S::kTileM;
  const int lane = threadIdx.x % S::kLanes, group = threadIdx.x / S::kLanes;
  const int k_begin = p.split_k ? blockIdx.z * kSegment : 0;
  const int k_end = p.split_k ? min(p.k, k_begin + kSegment) : p.k;

  float acc[S::kRows][S::kM] = {}, total[S::kRows][S::kM] = {};

  // Prologue: weights are constants, so the first of them are fetched before the kernel that makes x has finished.
  let_next_kernel_start();
  for (int s = 0; s < S::kStages - 1; ++s) {
    const int k = k_begin + s * S::kTileK;
    if (k < k_end) fetch_weights<S>(p, out, shared + s * S::kStageBytes, n0, k);
  }
  wait_for_previous_kernel();
  for (int s = 0; s < S::kStages - 1; ++s) {
    const int k = k_begin + s * S::kTileK;
    if (k < k_end) fetch_x<S>(p, shared + s * S::kStageBytes, m0, k);
    ptx::cp_async_commit_group();
  }

  // Main loop: one k-tile is multiplied while the next ones are in flight
  int stage = 0, ahead = S::kStages - 1;
  for (int k = k_begin; k < k_end; k += S::kTileK) {
    ptx::cp_async_wait_group<S::kStages - 2>();
    __syncthreads();
    const int k_ahead = k + (S::kStages - 1) * S::kTileK;
    if (k_ahead < k_end) {
      fetch_weights<S>(p, out, shared + ahead * S::kStageBytes, n0, k_ahead);
      fetch_x<S>(p, shared + ahead * S::kStageBytes, m0, k_ahead);
    }
    ptx::cp_async_commit_group();

    const unsigned char* weights = shared + stage * S::kStageBytes;
    const unsigned char* rows = weights + lane * S::kRowBytes;
    const float* xs = reinterpret_cast<const float*>(weights + S::kTileN * S::kRowBytes) + group * S::kM * S::kTileK;
    if (k + S::kTileK <= k_end) {
#pragma unroll
      for (int v = 0; v < S::kVectors; ++v) advance<S>(rows, xs, v, acc);
    } else {
      for (int v = 0; k + v * S::W::kPerVector < k_end; ++v) advance<S>(rows, xs, v, acc);
    }
    if ((k + S::kTileK) % kSegment == 0 || k + S::kTileK >= k_end)
      fold_segment<S>(p.split_k || k < kSegment, acc, total);
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    ahead = ahead + 1 == S::kStages ? 0 : ahead + 1;
  }

  // Epilogue
#pragma unroll
  for (int r = 0; r < S::kRows; ++r)
#pragma unroll
    for (int m = 0; m < S::kM; ++m) store(p, out, m0 + group * S::kM + m, n0 + lane + r * S::kLanes, total[r][m]);
}

}  // namespace reprofuse::cuda::fma1
