// What the int16-1 kernels of compute capability 9.0 sum: a block of terms in 32-bit integers, all blocks in 64.
#pragma once

#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/wgmma_roles_sm90a.cuh"
#include "kernels/cuda/ptx/wgmma_signed.cuh"

namespace reprofuse::cuda::int16 {

template <typename W, WgmmaShape kShape>
struct Wgmma : WgmmaSizes<W, kShape, tile_bytes(kShape.tile_m), 232> {
  using Row = int16::Row;
  using Sizes = WgmmaSizes<W, kShape, tile_bytes(kShape.tile_m), 232>;
  // With few rows of x an instruction takes longer to issue than to compute: the high digits of the weights meet both
  // digits of x at once, as if they were rows of their own.
  static constexpr bool kAtOnce = kShape.tile_m <= 32;
  // Sums of a block, totals of 64 bits; two steps' digits of w; 8 terms of two rows.
  static constexpr int kSums = (kAtOnce ? 3 : 2) * kShape.tile_m / 2;
  static constexpr int kLiveRegisters = kSums + kShape.tile_m + 2 * kDigits * 4 + kThreadTerms;
  static_assert(kLiveRegisters + 16 <= Sizes::kThreadRegisters,
                "sums, digits and some 16 registers of addresses must fit");
};

// What a thread has of a tile: sums of one block of terms, and totals of those before.
template <typename S, bool kAtOnce = S::kAtOnce>
struct Sums {
  static constexpr int kOne = S::kTileM / 2;
  int high[kOne], mid[kOne];
  long long totals[kOne] = {};

  // The products of 32 terms; that of the two low digits is left out. `first`: of a block. Digits of weights are in
  // registers, or in shared memory as those of x are.
  template <typename Digits>
  __device__ void add(const Digits& w, std::uint64_t digits, bool first) {
    constexpr int kPlane = ptx::SharedMemoryDescriptor::advance(S::kPlaneBytes);
    ptx::wgmma_m64k32_s8<S::kTileM>(high, w[0], digits, !first);
    ptx::wgmma_m64k32_s8<S::kTileM>(mid, w[0], digits + kPlane, !first);
    ptx::wgmma_m64k32_s8<S::kTileM>(mid, w[1], digits, true);
  }
  __device__ long long of(int i) const { return totals[i]; }
  __device__ int high_of(int i) const { return high[i]; }
  __device__ int mid_of(int i) const { return mid[i]; }
};

template <typename S>
struct Sums<S, true> {
  static constexpr int kOne = S::kTileM / 2;
  int both[2 * kOne], mid[kOne];
  long long totals[kOne] = {};

  __device__ void add(const std::uint32_t (&w)[kDigits][4], std::uint64_t digits, bool first) {
    ptx::wgmma_m64k32_s8<2 * S::kTileM>(both, w[0], digits, !first);
    ptx::wgmma_m64k32_s8<S::kTileM>(mid, w[1], digits, !first);
  }
  __device__ long long of(int i) const { return totals[i]; }
  __device__ int high_of(int i) const { return both[i]; }
  __device__ int mid_of(int i) const { return both[kOne + i] + mid[i]; }
};

// The sums of a block go to the totals; its factors came with its digits.
template <typename S>
__device__ inline void finish_block(const unsigned char* digits, const MathThread<S>& own, Sums<S>& sums) {
  const auto* factors = reinterpret_cast<const int*>(digits + digit_bytes(S::kTileM));
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; i += 4) {
    const int2 factor = *reinterpret_cast<const int2*>(factors + i / 4 * 8 + own.lane % 4 * 2);
#pragma unroll
    for (int j = i; j < i + 4; ++j)
      sums.totals[j] = add_block(sums.totals[j], sums.high_of(j), sums.mid_of(j), j % 2 == 0 ? factor.x : factor.y);
  }
}

// Persistent: one tile after another, each stored by the threads that have its totals. What the epilogue needs is found
// there: registers are few in the main loop.
// `multiply` sums the k-tiles of a tile.
template <typename S, typename Multiply>
__device__ inline void multiply_tiles(const Params& p, const TileScheduler<S>& scheduler, const Multiply& multiply) {
  const MathThread<S> own;
  ptx::PipelineState at;
  for (int t = scheduler.tile; t < scheduler.tiles; t += scheduler.step) {
    Sums<S> sums;
    multiply(scheduler.at(t), at, own, sums);

    // Epilogue
    wait_for_previous_kernel();
    store_tile<S>(p, scheduler.at(kept(t)), own, sums, [](const Row&) { return 0; });
  }
}

}  // namespace reprofuse::cuda::int16
