// Weights and rows of activations of int16-1 as digits, and sums of their products as results.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/int16/params.hpp"
#include "kernels/cuda/linear/integer/row_helpers.cuh"
#include "kernels/cuda/linear/integer/terms.cuh"

namespace reprofuse::cuda::int16 {

// Of four integers, each plus 128: byte 1 is the high digit, byte 0 the low one plus 128.
__device__ inline void gather_digits(const std::uint32_t (&biased)[4], std::uint32_t& high, std::uint32_t& low) {
  const std::uint32_t front = __byte_perm(biased[0], biased[1], 0x5140);
  const std::uint32_t back = __byte_perm(biased[2], biased[3], 0x5140);
  low = __byte_perm(front, back, 0x5410) ^ 0x80808080u;
  high = __byte_perm(front, back, 0x7632);
}

// rint(value / unit) + 128 in the low 16 bits.
__device__ inline std::uint32_t snap_biased(float value, float inverse) {
  return __float_as_uint(__fmaf_rn(value, inverse, kRoundToInteger + 128.0f));
}

// The digits of a thread's terms of weight rows r and r + 8, laid out as the operand of a matrix product: words 0 and 2
// are row r, words 1 and 3 row r + 8.
__device__ inline void split_weights(const float (&row)[kThreadTerms], const float (&row8)[kThreadTerms], float inverse,
                                     float inverse8, std::uint32_t (&digits)[kDigits][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t biased[4], biased8[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      biased[e] = snap_biased(row[half * 4 + e], inverse);
      biased8[e] = snap_biased(row8[half * 4 + e], inverse8);
    }
    gather_digits(biased, digits[0][half * 2], digits[1][half * 2]);
    gather_digits(biased8, digits[0][half * 2 + 1], digits[1][half * 2 + 1]);
  }
}

// total + (256 * high + mid) * factor: a block of terms in its place among all.
__device__ inline long long add_block(long long total, int high, int mid, int factor) {
  return total + static_cast<long long>(high * 256 + mid) * factor;
}

__device__ inline float unbiased_result(const Row& row, long long sum, int weight_unit) {
  const float y = result(sum, row.unit, weight_unit);
  return row.unit != kNotFinite ? y : __uint_as_float(0x7fffffffu);
}

static_assert(kBlockTiles == 4, "the magnitudes of a block of terms are a vector");

struct Snap {
  // Digits, factors and the unit of row m, by the CTA or cluster of RowGroup; zero digits where the row is padding.
  // `terms(k)` are the four from k on: asked for once where the CTAs hold the row, else twice.
  template <typename RowGroup, int kThreads, int kHeld, typename Terms>
  __device__ static void row(const DigitRows& to, int m, const Terms& terms) {
    using Held = HeldTerms<kThreads, kHeld>;
    __shared__ uint4 largest[kMaxKTiles / kBlockTiles];  // magnitudes of each k-tile
    const int blocks = ceil_div(to.k_tiles, kBlockTiles);
    const int begin = blocks * RowGroup::rank() / RowGroup::kCtas * kTermBlock;
    const int end = blocks * (RowGroup::rank() + 1) / RowGroup::kCtas * kTermBlock;
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
    const int row_unit = unit_byte(RowGroup::max(max_of_blocks(largest, begin / kTermBlock, end / kTermBlock)));
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
    if (RowGroup::rank() == 0 && threadIdx.x == 0 && m < to.m) static_cast<Row*>(to.rows)[m] = {row_unit};
    RowGroup::leave();
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

// The contract, as kernels of integers ask for it: exact1::Contract says what is what.
struct Contract {
  static constexpr int kDigits = int16::kDigits;
  using Row = int16::Row;
  using Snap = int16::Snap;

  static constexpr int tile_bytes(int rows) { return int16::tile_bytes(rows); }
  __device__ static long long offset(const Row&) { return 0; }
  __device__ static int weight_byte(std::uint32_t max) { return unit_byte(max); }
  __device__ static float scale(int weight_byte) { return inverse_unit(weight_byte); }
  __device__ static void split(const float4& terms, float inverse, std::uint32_t (&digits)[kDigits]) {
    gather_digits({snap_biased(terms.x, inverse), snap_biased(terms.y, inverse), snap_biased(terms.z, inverse),
                   snap_biased(terms.w, inverse)},
                  digits[0], digits[1]);
  }
  // The operand of a matrix product: split_weights().
  __device__ static void split(const float (&terms)[kThreadTerms], const float (&terms8)[kThreadTerms], float inverse,
                               float inverse8, std::uint32_t (&digits)[kDigits][4]) {
    split_weights(terms, terms8, inverse, inverse8, digits);
  }
};

}  // namespace reprofuse::cuda::int16
