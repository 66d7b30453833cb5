// Prefill, and operands that allow no vector loads: a block owns a kTileM x kTileN tile, a thread kM x kN of it in
// registers. Weights are widened on their way into shared memory. A block owns one segment (split) or all; then totals
// wait in shared memory, because the registers hold the running chain.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_fma1_params.cuh"
#include "kernels/cuda/weight_types.cuh"
#include "numerics/order.hpp"

namespace reprofuse::cuda::fma1 {

using reprofuse::fma1::kPadX;

// kVectorLoads: rows start on 16 bytes and k is a multiple of a vector; otherwise operands come one by one.
template <typename W_, int kTileM_, int kTileN_, int kM_, int kN_, int kTileK_, bool kVectorLoads_>
struct TileShape {
  using W = W_;
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kM = kM_, kN = kN_, kTileK = kTileK_;
  static constexpr bool kVectorLoads = kVectorLoads_;
  static constexpr int kThreads = (kTileM / kM) * (kTileN / kN);
  // A warp is 4 x 8 threads, each holding kM / 4 by kN / 4 squares of 4 x 4 outputs.
  static constexpr int kLaneM = 4, kLaneN = 8;
  static constexpr int kWarpM = kLaneM * kM, kWarpN = kLaneN * kN, kWarpsM = kTileM / kWarpM;
  static constexpr int kVectorX = 4, kVectorW = W::kPerVector;
  static constexpr int kStagedX = ceil_div(kTileM * kTileK / kVectorX, kThreads);  // vectors per thread
  static constexpr int kStagedW = ceil_div(kTileN * kTileK / kVectorW, kThreads);
  static constexpr int kStrideX = kTileM + 4, kStrideW = kTileN + 4;  // in shared memory, [k][row]
  static constexpr int kBufferFloats = kTileK * (kStrideX + kStrideW);
  static constexpr int kSharedBytes = 2 * kBufferFloats * 4;
  static constexpr int kTotalBytes = kTileM * kTileN * 4;
  static_assert(kSegment % kTileK == 0, "a k-tile must not straddle two segments");
  static_assert(kTileM % kWarpM == 0 && kTileN % kWarpN == 0 && kM % 4 == 0 && kN % 4 == 0);

  // Lanes that differ in bit 0 share x and those that differ in bit 1 share w: the hardware then serves a 16-byte read
  // of a whole warp in two passes instead of four.
  __device__ static int lane_m(int lane) { return (lane >> 1 & 1) | (lane >> 2 & 2); }
  __device__ static int lane_n(int lane) { return (lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4); }
};

// A thread's share of one operand. The vectors of a row lie side by side over the lanes, so that loads fill their cache
// lines; the stores into [k][row] then meet a bank twice, which costs less. Rows beyond the edge repeat the last one:
// their results are not stored.
template <typename S, typename Bits, int kTileRows, int kVector, int kCount>
struct Loader {
  static constexpr int kVectors = S::kTileK / kVector;  // of a row
  static constexpr int kLoads = kTileRows * kVectors;
  const Bits* from[kCount];

  __device__ Loader(const Bits* base, std::int64_t stride, int first_row, int rows) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) from[i] = base + min(first_row + row_of(i), rows - 1) * stride + k_of(i);
  }

  __device__ static int k_of(int i) {
    return (threadIdx.x + i * S::kThreads) % kVectors * kVector;
  }
  __device__ static int row_of(int i) {
    return (threadIdx.x + i * S::kThreads) / kVectors;
  }
  __device__ static bool has(int i) {
    return kLoads % S::kThreads == 0 || threadIdx.x + i * S::kThreads < kLoads;
  }

  // Vector i of the tile at k, with `padding` beyond the end of the row.
  __device__ uint4 load(int i, int k, int k_end, std::uint32_t padding) const {
    const Bits* at = from[i] + k;
    const int left = k_end - k - k_of(i);
    std::uint32_t words[4] = {padding, padding, padding, padding};
    if constexpr (S::kVectorLoads) {
      if (has(i) && left > 0) return __ldg(reinterpret_cast<const uint4*>(at));
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (!has(i) || e >= left) continue;
        if constexpr (sizeof(Bits) == 4)
          words[e] = at[e];
        else
          words[e / 2] |= std::uint32_t{at[e]} << (e % 2 * 16);
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

template <typename S>
using LoaderX = Loader<S, std::uint32_t, S::kTileM, S::kVectorX, S::kStagedX>;
template <typename S>
using LoaderW = Loader<S, typename S::W::Bits, S::kTileN, S::kVectorW, S::kStagedW>;

// One k-tile on its way from global to shared memory.
template <typename S>
struct Staged {
  uint4 x[S::kStagedX], w[S::kStagedW];

  __device__ void load(const LoaderX<S>& from_x, const LoaderW<S>& from_w, int k, int k_end) {
#pragma unroll
    for (int i = 0; i < S::kStagedX; ++i) x[i] = from_x.load(i, k, k_end, __float_as_uint(kPadX));
#pragma unroll
    for (int i = 0; i < S::kStagedW; ++i) w[i] = from_w.load(i, k, k_end, 0);
  }

  __device__ void store(float* buffer) const {
#pragma unroll
    for (int i = 0; i < S::kStagedX; ++i) store_vector<LoaderX<S>, F32Weight, S::kStrideX>(buffer, i, x[i]);
#pragma unroll
    for (int i = 0; i < S::kStagedW; ++i)
      store_vector<LoaderW<S>, typename S::W, S::kStrideW>(buffer + S::kTileK * S::kStrideX, i, w[i]);
  }

 private:
  template <typename From, typename Format, int kStride>
  __device__ static void store_vector(float* to, int i, const uint4& bits) {
    if (!From::has(i)) return;
#pragma unroll
    for (int e = 0; e < Format::kPerVector; ++e)
      to[(From::k_of(i) + e) * kStride + From::row_of(i)] = Format::element(bits, e);
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

// Advances the thread's chains by the terms of one k-tile, in ascending k. At one k the chains are independent: they go
// in 2 x 2 squares along a snake, so that each step finds half its operands where the last one left them.
template <typename S>
__device__ inline void multiply_tile(const float* xs, const float* ws, float (&acc)[S::kM][S::kN]) {
  Fragment<S> fragments[2];
  fragments[0].load(xs, ws, 0);
#pragma unroll
  for (int k = 0; k < S::kTileK; ++k) {
    if (k + 1 < S::kTileK) fragments[(k + 1) % 2].load(xs, ws, k + 1);
    const Fragment<S>& f = fragments[k % 2];
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
}

// Adds the finished segment to the totals, which only this thread touches, and starts the next chain.
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

template <typename S>
__global__ __launch_bounds__(S::kThreads, 1) void linear_tiles(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) float buffers[];
  float* totals = buffers + 2 * S::kBufferFloats;
  const Output& out = p.outputs[output_of_tile(p, blockIdx.y)];
  const int n0 = (blockIdx.y - out.first_tile) * S::kTileN;
  const int m0 = blockIdx.x * S::kTileM;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m = warp % S::kWarpsM * S::kWarpM + S::lane_m(lane) * 4;
  const int n = warp / S::kWarpsM * S::kWarpN + S::lane_n(lane) * 4;
  const int k_begin = p.split ? blockIdx.z * kSegment : 0;
  const int k_end = p.split ? min(p.k, k_begin + kSegment) : p.k;

  let_next_kernel_start();
  wait_for_previous_kernel();
  float acc[S::kM][S::kN] = {};
  const LoaderX<S> from_x(reinterpret_cast<const std::uint32_t*>(p.x), p.x_stride, m0, p.m);
  const LoaderW<S> from_w(static_cast<const typename S::W::Bits*>(out.w), out.w_stride, n0, out.n);
  Staged<S> staged;
  staged.load(from_x, from_w, k_begin, k_end);
  staged.store(buffers);
  __syncthreads();
  int buffer = 0;
  for (int k = k_begin; k < k_end; k += S::kTileK) {
    const int k_next = k + S::kTileK;
    if (k_next < k_end) staged.load(from_x, from_w, k_next, k_end);
    const float* xs = buffers + buffer * S::kBufferFloats;
    multiply_tile<S>(xs + m, xs + S::kTileK * S::kStrideX + n, acc);
    if (k_next < k_end) {
      if (k_next % kSegment == 0) fold_segment<S>(totals, k_next == kSegment, acc);
      buffer ^= 1;
      staged.store(buffers + buffer * S::kBufferFloats);
      __syncthreads();
    }
  }
  const bool several = !p.split && p.k > kSegment;
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
