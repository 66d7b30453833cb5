// A row of activations as digits of int16-1.
#pragma once

#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/rows.cuh"

namespace reprofuse::cuda::int16 {

static_assert(kBlockTiles == 4, "the magnitudes of a block of terms are a vector");

struct Snap {
  // Digits, factors and the unit of row m, by a CTA or a cluster (Part); zero digits where the row is padding.
  // `terms(k)` are the four from k on: asked for once where the CTAs hold the row, else twice.
  template <typename Part, int kThreads, int kHeld, typename Terms>
  __device__ static void row(const DigitRows& to, int m, const Terms& terms) {
    using Held = HeldTerms<kThreads, kHeld>;
    __shared__ uint4 largest[kMaxKTiles / kBlockTiles];  // magnitudes of each k-tile
    const int blocks = ceil_div(to.k_tiles, kBlockTiles);
    const int begin = blocks * Part::rank() / Part::kCtas * kTermBlock;
    const int end = blocks * (Part::rank() + 1) / Part::kCtas * kTermBlock;
    const int padded_end = min(end, to.k_tiles * kTileK);
    const int filled = m < to.m ? min(end, to.k) : 0;  // zeros from there on
    const bool is_held = end - begin <= Held::kTerms;
    Held held;
    for (int first = begin; first < end; first += Held::kTerms) {
      held.load(first, filled, terms);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int k = Held::term(first, i);
        const std::uint32_t max = __reduce_max_sync(~0u, max_magnitude(held.vectors[i]));
        if (threadIdx.x % kWarp == 0 && k < end) (&largest[0].x)[k / kTileK] = max;
      }
    }
    __syncthreads();
    const int row_unit = unit_byte(Part::max(max_of_blocks(largest, begin / kTermBlock, end / kTermBlock)));
    const int plane = to.tile_m * kTileK, bytes = tile_bytes(to.tile_m);
    std::uint8_t* tile = to.digits + std::int64_t{m / to.tile_m} * to.k_tiles * bytes;
    for (int first = begin; first < padded_end; first += Held::kTerms) {
      if (!is_held) held.load(first, filled, terms);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int k = Held::term(first, i);
        if (k >= padded_end) break;
        const int unit = block_unit(unit_byte(max_of(largest[k / kTermBlock])), row_unit);
        std::uint8_t* at = tile + std::int64_t{k / kTileK} * bytes;
        store(held.vectors[i], inverse_unit(unit), at + place_in_digits(m % to.tile_m, k % kTileK), plane);
        if (k % kTileK == 0)
          reinterpret_cast<int*>(at + digit_bytes(to.tile_m))[m % to.tile_m] = 1 << (unit - row_unit + kUnitRange);
      }
    }
    if (Part::rank() == 0 && threadIdx.x == 0 && m < to.m) static_cast<Row*>(to.rows)[m] = {row_unit};
    Part::leave();
  }

 private:
  __device__ static std::uint32_t max_of(const uint4& tiles) {
    return umax(umax(tiles.x, tiles.y), umax(tiles.z, tiles.w));
  }
  // By every warp for itself.
  __device__ static std::uint32_t max_of_blocks(const uint4* blocks, int begin, int end) {
    std::uint32_t max = 0;
    for (int i = begin + threadIdx.x % kWarp; i < end; i += kWarp) max = umax(max, max_of(blocks[i]));
    return __reduce_max_sync(~0u, max);
  }
  // The digits of four terms go to their places in two planes.
  __device__ static void store(const float4& x, float inverse, std::uint8_t* to, int plane) {
    const std::uint32_t biased[4] = {snap_biased(x.x, inverse), snap_biased(x.y, inverse), snap_biased(x.z, inverse),
                                     snap_biased(x.w, inverse)};
    std::uint32_t high, low;
    gather_digits(biased, high, low);
    *reinterpret_cast<std::uint32_t*>(to) = high;
    *reinterpret_cast<std::uint32_t*>(to + plane) = low;
  }
};

}  // namespace reprofuse::cuda::int16
