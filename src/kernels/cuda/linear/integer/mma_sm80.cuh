// The frame of kernels with the integer matrix product that every GPU from compute capability 8.0 on has. A warp owns
// 16 weight rows and takes them from memory to digits in registers; the digits of x come through shared memory. Any
// alignment, any weight format. A contract's Sums has add(), finish_k_tile() and of(i): a whole sum of 64 bits.
#pragma once

#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/linear/integer/terms.cuh"
#include "kernels/cuda/ptx/copy.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::integer {

struct MmaShape {
  int tile_m;         // rows of x
  bool vector_loads;  // 16-byte aligned weight rows, k a multiple of 8
};

// What follows from a shape and the bytes that a contract makes of a k-tile of its rows of x.
template <typename W_, MmaShape kShape, int kTileBytes_>
struct MmaSizes {
  using W = W_;
  static constexpr int kTileM = kShape.tile_m;
  static constexpr bool kVectorLoads = kShape.vector_loads;
  static constexpr int kThreads = 128;
  static constexpr int kTileN = kThreads / kWarp * 16;
  static constexpr int kPlaneBytes = kTileM * kTileK;
  static constexpr int kStageBytes = kTileBytes_;
  static constexpr int kSharedBytes = 2 * kStageBytes;
  static_assert(kStageBytes % 16 == 0, "threads bring vectors of digits");
  static_assert(fits_shared(kSharedBytes, 1, kMinSmSharedBytes),
                "every supported device must have room for two stages");
};

// Terms k to k + 7 of a weight row, zero beyond K.
template <typename S>
__device__ inline void load_terms(const void* row, int k, int end, float (&terms)[kThreadTerms]) {
  using W = typename S::W;
  const auto* bits = static_cast<const typename W::Bits*>(row) + k;
  if constexpr (S::kVectorLoads) {
#pragma unroll
    for (int v = 0; v < kThreadTerms / W::kPerVector; ++v) {
      const uint4 vector = k < end ? __ldg(reinterpret_cast<const uint4*>(bits) + v) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < W::kPerVector; ++i) terms[v * W::kPerVector + i] = W::element(vector, i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kThreadTerms; ++i) terms[i] = W::element(make_uint4(k + i < end ? bits[i] : 0u, 0, 0, 0), 0);
  }
}

template <typename S>
__device__ inline void fetch_digits(const Params& p, unsigned char* stage, int k_tile) {
  const std::uint8_t* from = p.digits + (static_cast<std::int64_t>(blockIdx.y) * p.k_tiles + k_tile) * S::kStageBytes;
#pragma unroll
  for (int at = threadIdx.x * 16; at < S::kStageBytes; at += S::kThreads * 16)
    ptx::cp_async_no_prefetch(stage + at, from + at);
}

// The tile of a CTA, and what a thread has of it.
template <typename S>
struct MmaTile {
  const Output& out;
  int n0, m0;
  int lane = threadIdx.x % kWarp;
  int n = n0 + threadIdx.x / kWarp * 16 + lane / 4;  // the thread's weight rows: this, and eight on

  __device__ explicit MmaTile(const Params& p)
      : out(output_of_tile(p, blockIdx.z)), n0((blockIdx.z - out.first_tile) * S::kTileN), m0(blockIdx.y * S::kTileM) {}
  __device__ const typename S::W::Bits* weights(int row) const {
    return static_cast<const typename S::W::Bits*>(out.w) + min(row, out.n - 1) * out.w_stride;
  }
};

// Sums the products of the CTA's share of the k-tiles. `split` makes digits of a thread's terms of its two rows.
template <typename S, typename Sums, typename Split>
__device__ inline void multiply_k_tiles(const Params& p, const MmaTile<S>& tile, unsigned char* shared, Sums& sums,
                                        const Split& split) {
  const int begin = p.k_tiles * blockIdx.x / p.splits, end = p.k_tiles * (blockIdx.x + 1) / p.splits;
  const auto *row = tile.weights(tile.n), *row8 = tile.weights(tile.n + 8);

  // Prologue
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (begin < end) fetch_digits<S>(p, shared, begin);
  ptx::cp_async_commit_group();

  // Main loop
  for (int k_tile = begin; k_tile < end; ++k_tile) {
    const unsigned char* stage = shared + (k_tile - begin) % 2 * S::kStageBytes;
    if (k_tile + 1 < end) fetch_digits<S>(p, shared + (k_tile + 1 - begin) % 2 * S::kStageBytes, k_tile + 1);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kTileK / 32; ++step) {
      const int k = k_tile * kTileK + first_term(step, tile.lane % 4);
      float own[kThreadTerms], own8[kThreadTerms];
      load_terms<S>(row, k, p.k, own);
      load_terms<S>(row8, k, p.k, own8);
      std::uint32_t w[S::kDigits][4];
      split(own, own8, w);
      sums.add(w, stage + step * 256);
    }
    sums.finish_k_tile(k_tile, k_tile == end - 1, stage);
    __syncthreads();
  }
}

// Of eight rows of x and 32 terms: the operand of a product, from its digit's plane.
__device__ inline uint2 load_digits(const unsigned char* plane, int block) {
  const unsigned char* from = plane + block * (kTileK * 8) + threadIdx.x % kWarp * 4;
  return {*reinterpret_cast<const std::uint32_t*>(from), *reinterpret_cast<const std::uint32_t*>(from + 128)};
}

// Results, or partials where CTAs share K. `offset` is what a row's sums have too much.
template <typename Row, typename S, typename Sums, typename Offset>
__device__ inline void store_sums(const Params& p, const MmaTile<S>& tile, const Sums& sums, const Offset& offset) {
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; ++i) {
    const int m = tile.m0 + i / 4 * 8 + tile.lane % 4 * 2 + i % 2, column = tile.n + i % 4 / 2 * 8;
    if (m >= p.m || column >= tile.out.n) continue;
    const long long sum = sums.of(i);
    const Row& row = static_cast<const Row*>(p.rows)[m];
    if (p.splits > 1)
      p.partials[(std::int64_t{blockIdx.x} * p.m + m) * p.columns + tile.out.first_column + column] = sum;
    else
      store_result(p, tile.out, m, Column(tile.out, column), row, sum - offset(row));
  }
}

// What a schedule knows of such a kernel, but for its function.
template <typename S>
Kernel mma_kernel(const char* name, Cost cost, int max_k_tiles) {
  return {.name = name,
          .function = nullptr,
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = S::kSharedBytes,
          .vector_loads = S::kVectorLoads,
          .exchange = Exchange::kPartials,
          .cost = cost,
          .max_k_tiles = max_k_tiles};
}

}  // namespace reprofuse::cuda::integer
