// What the int16-1 kernels of compute capability 9.0 sum: a block of terms in 32-bit integers, all blocks in 64.
#pragma once

#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/wgmma_roles_sm90a.cuh"
#include "kernels/cuda/ptx/wgmma_sm90a.cuh"

namespace reprofuse::cuda::int16 {

template <typename W, WgmmaShape kShape>
struct Wgmma : WgmmaSizes<W, kShape, tile_bytes(kShape.tile_m)> {
  using Row = int16::Row;
  using Sizes = WgmmaSizes<W, kShape, tile_bytes(kShape.tile_m)>;
  // With few rows of x an instruction takes longer to issue than to compute: the high digits of the weights meet both
  // digits of x at once, as if they were rows of their own.
  static constexpr bool kAtOnce = kShape.tile_m <= 32;
  // Sums of a block, totals of 64 bits; two steps' digits of w; 8 terms of two rows.
  static constexpr int kSums = (kAtOnce ? 3 : 2) * kShape.tile_m / 2;
  static constexpr int kLiveRegisters = kSums + kShape.tile_m + 2 * kDigits * 4 + kThreadTerms;
  static_assert(kLiveRegisters + 16 <= Sizes::kMathRegisters,
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

  template <typename Digits>
  __device__ void add(const Digits& w, std::uint64_t digits, bool first) {
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

// The same results as store_tile() of a tile that has all its columns, and scales that are normal numbers. `rows` are
// those from the thread's first on. True where some are not finite, and none is recorded yet.
template <typename S, typename Sums>
__device__ inline bool store_plain_tile(const WgmmaTile& tile, const MathThread<S>& own, const Sums& sums,
                                        const int* units, int rows, const Column& column, const Column& column8) {
  const std::int64_t stride = tile.out.y_stride;
  float* even = tile.out.y + (tile.m0 + own.lane % 4 * 2) * stride + column.n;
  float* odd = even + stride;
  float not_finite = 0.0f;
  const auto store = [&](float* to, long long sum, int scale, float bias) {
    // A sum of 0 gives +0, and any other more than 0 in magnitude: where there is no bias, adding 0 changes nothing.
    const float y = __fadd_rn(__fmul_rn(to_float(sum), __int_as_float(scale)), bias);
    not_finite = __fmaf_rn(y, 0.0f, not_finite);
    asm volatile("st.global.f32 [%0], %1;" ::"l"(to), "f"(y));  // volatile keeps program order
  };
  const int scale = (column.exponent - 143) << 23, scale8 = (column8.exponent - 143) << 23;
#pragma unroll
  for (int i = 0; i < S::kTileM / 8; ++i) {
    if (i * 8 < rows) {
      const int unit = units[i * 8] << 23;
      store(even, sums.of(i * 4), unit + scale, column.bias);
      store(even + 8, sums.of(i * 4 + 2), unit + scale8, column8.bias);
    }
    if (i * 8 + 1 < rows) {
      const int unit = units[i * 8 + 1] << 23;
      store(odd, sums.of(i * 4 + 1), unit + scale, column.bias);
      store(odd + 8, sums.of(i * 4 + 3), unit + scale8, column8.bias);
    }
    even += 8 * stride;
    odd += 8 * stride;
  }
  return not_finite != 0.0f;
}

// Rounds and stores a tile from the threads that have its sums.
template <typename S, typename Sums>
__device__ inline void store_whole_tile(const Params& p, const WgmmaTile& tile, const MathThread<S>& own,
                                        const Sums& sums) {
  bool careful = tile.n0 + S::kTileN > tile.out.n;
  if (!careful) {
    const Column column(tile.out, tile.n0 + own.row), column8(tile.out, tile.n0 + own.row + 8);
    const int min_unit = min(column.exponent, column8.exponent), max_unit = max(column.exponent, column8.exponent);
    const auto* units = reinterpret_cast<const int*>(p.rows) + tile.m0 + own.lane % 4 * 2;
    static_assert(sizeof(Row) == sizeof(int));
    const int rows = p.m - tile.m0 - own.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::kTileM / 4; ++i) {  // the exponent fields of the scales, from 1 to 254
      const int row = i / 2 * 8 + i % 2;
      if (row >= rows) continue;
      careful |= units[row] + min_unit < 144 || units[row] + max_unit > 397 || units[row] == kNotFinite;
    }
    if (!careful) careful = store_plain_tile<S>(tile, own, sums, units, rows, column, column8);
  }
  if (careful) store_tile<S>(p, tile, own, sums, [](const Row&) { return 0; });
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
    store_whole_tile<S>(p, scheduler.at(keep_in_register(t)), own, sums);
  }
}

// Split-K: the CTA's k-tiles of one tile, whose sums are added over the cluster.
template <typename S, typename Multiply>
__device__ inline void multiply_split(const Params& p, const TileScheduler<S>& scheduler, const WgmmaShared<S>& shared,
                                      const Multiply& multiply) {
  const WgmmaTile tile = scheduler.at(0);
  const MathThread<S> own;
  ptx::PipelineState at;
  load_epilogue_state<S>(p, tile, shared.state());
  Sums<S> sums;
  multiply(tile, at, own, sums);
  exchange_sums<S>(p, tile, shared, own, sums, [](const Row&) { return 0; });
}

}  // namespace reprofuse::cuda::int16
