// Weights and rows of activations of exact-1 as digits, and sums of their products as results.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/integer/row_helpers.cuh"
#include "kernels/cuda/linear/integer/terms.cuh"

namespace reprofuse::cuda::exact1 {

// Bytes 0, 1 and 2 of four snapped weights become the lowest, middle and highest digits of a word each.
__device__ inline void gather_digits(const std::uint32_t (&snapped)[4], std::uint32_t& high, std::uint32_t& middle,
                                     std::uint32_t& low) {
  const std::uint32_t front = __byte_perm(snapped[0], snapped[1], 0x5140);
  const std::uint32_t back = __byte_perm(snapped[2], snapped[3], 0x5140);
  low = __byte_perm(front, back, 0x5410);
  middle = __byte_perm(front, back, 0x7632);
  high = __byte_perm(__byte_perm(snapped[0], snapped[1], 0x0062), __byte_perm(snapped[2], snapped[3], 0x0062), 0x5410);
}

// The digits of a thread's terms of weight rows r and r + 8, laid out as the operand of a matrix product: words 0 and 2
// are row r, words 1 and 3 row r + 8.
__device__ inline void split_weights(const float (&row)[kThreadTerms], const float (&row8)[kThreadTerms], float scale,
                                     float scale8, std::uint32_t (&digits)[kDigits][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t snapped[4], snapped8[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      snapped[e] = snap_weight(row[half * 4 + e], scale);
      snapped8[e] = snap_weight(row8[half * 4 + e], scale8);
    }
    gather_digits(snapped, digits[0][half * 2], digits[1][half * 2], digits[2][half * 2]);
    gather_digits(snapped8, digits[0][half * 2 + 1], digits[1][half * 2 + 1], digits[2][half * 2 + 1]);
  }
}

// The classes of one output's digit products, combined. In assembly, because a compiler that combines those of many
// outputs ahead of their turn runs out of registers.
__device__ inline long long combined(int c0, int c1, int c2, int c3) {
  long long sum;
  asm volatile(
      "{\n.reg .s64 next;\n"
      "cvt.s64.s32 next, %2;\nmad.wide.s32 %0, %1, 256, next;\n"
      "cvt.s64.s32 next, %3;\nmad.lo.s64 %0, %0, 256, next;\n"
      "cvt.s64.s32 next, %4;\nmad.lo.s64 %0, %0, 256, next;\n"
      "shl.b64 %0, %0, 8;\n}"
      : "=&l"(sum)
      : "r"(c0), "r"(c1), "r"(c2), "r"(c3));
  return sum;
}

// An exponent of weights that came in a byte.
__device__ inline int weight_exponent_of(int byte) {
  return byte - 127;
}

__device__ inline float scale_of_weights(int byte) {
  return weight_scale(weight_exponent_of(byte));
}

// Of a whole sum, out of which the bias of the weights has been taken.
__device__ inline float unbiased_result(const Row& row, long long sum, int weight_byte) {
  const float y = result(sum, row.exponent, weight_exponent_of(weight_byte));
  return row.finite ? y : __uint_as_float(0x7fffffffu);
}

struct Snap {
  // Digits, exponent and offset of row m, by the CTA or cluster of RowGroup; zero digits where the row is padding.
  // `terms(k)` are the four from k on: asked for once where the CTAs hold the row, else twice.
  template <typename RowGroup, int kThreads, int kHeld, typename Terms>
  __device__ static void row(const DigitRows& to, int m, const Terms& terms) {
    using Held = HeldTerms<kThreads, kHeld>;
    const int begin = to.k_tiles * RowGroup::rank() / RowGroup::kCtas * kTileK;
    const int end = to.k_tiles * (RowGroup::rank() + 1) / RowGroup::kCtas * kTileK;
    const int filled = m < to.m ? min(end, to.k) : 0;  // zeros from there on
    const bool is_held = end - begin <= Held::kTerms;
    Held held;
    std::uint32_t max = 0;
    for (int first = begin; first < end; first += Held::kTerms) {
      held.load(first, filled, terms);
#pragma unroll
      for (const float4& x : held.vectors) max = umax(max, max_magnitude(x));
    }
    max = RowGroup::max(cta_max<kThreads>(max));
    // A row whose largest magnitude is not finite has no exponent; any will do, since no result is made of it.
    const int exponent = activation_exponent(max < kInfinityBits ? max : 0);
    const float scale = activation_scale(exponent);
    const int plane = to.tile_m * kTileK;
    std::uint8_t* tile = to.digits + std::int64_t{m / to.tile_m} * to.k_tiles * kDigits * plane;
    long long sum = 0;
    for (int first = begin; first < end; first += Held::kTerms) {
      if (!is_held) held.load(first, filled, terms);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int k = Held::term(first, i);
        if (k >= end) break;
        std::uint8_t* at = tile + std::int64_t{k / kTileK} * kDigits * plane;
        sum += store(held.vectors[i], scale, at + place_in_digits(m % to.tile_m, k % kTileK), plane);
      }
    }
    sum = RowGroup::sum(cta_sum<kThreads>(sum));
    if (RowGroup::rank() == 0 && threadIdx.x == 0 && m < to.m)
      static_cast<Row*>(to.rows)[m] = {sum << kWeightBits, exponent, max < kInfinityBits};
    RowGroup::leave();
  }

 private:
  template <int kLanes>
  __device__ static long long sum_of_lanes(long long value) {
#pragma unroll
    for (int step = kLanes / 2; step >= 1; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
  }
  // The sum over the CTA, known to its first warp.
  template <int kThreads>
  __device__ static long long cta_sum(long long value) {
    __shared__ long long warps[kThreads / kWarp];
    value = sum_of_lanes<kWarp>(value);
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    if (threadIdx.x >= kWarp) return 0;
    return sum_of_lanes<kThreads / kWarp>(warps[threadIdx.x % (kThreads / kWarp)]);
  }
  // The digits of four terms go to their places in three planes; returns the sum of the integers.
  __device__ static long long store(const float4& x, float scale, std::uint8_t* to, int plane) {
    const std::int32_t snapped[4] = {snap_activation(x.x, scale), snap_activation(x.y, scale),
                                     snap_activation(x.z, scale), snap_activation(x.w, scale)};
    std::uint32_t balanced[4], digits[kDigits];
#pragma unroll
    for (int e = 0; e < 4; ++e) balanced[e] = (static_cast<std::uint32_t>(snapped[e]) + 0x808080u) ^ 0x808080u;
    gather_digits(balanced, digits[0], digits[1], digits[2]);
#pragma unroll
    for (int d = 0; d < kDigits; ++d) *reinterpret_cast<std::uint32_t*>(to + d * plane) = digits[d];
    return 0ll + snapped[0] + snapped[1] + snapped[2] + snapped[3];
  }
};

// The contract, as kernels of integers ask for it.
struct Contract {
  static constexpr int kDigits = exact1::kDigits;
  using Row = exact1::Row;    // what is kept of a row of x besides digits
  using Snap = exact1::Snap;  // makes digits of a row of x

  // Of a k-tile of so many rows of x.
  static constexpr int tile_bytes(int rows) { return exact1::tile_bytes(rows); }
  // What the bias that makes weights unsigned adds to the sums of a row.
  __device__ static long long offset(const Row& row) { return row.offset; }
  // The exponent of a weight row by the bits of its largest magnitude, and what its weights are multiplied by.
  __device__ static int weight_byte(std::uint32_t max) { return weight_exponent(max < kInfinityBits ? max : 0) + 127; }
  __device__ static float scale(int weight_byte) { return scale_of_weights(weight_byte); }
  // A word of each digit of four weights.
  __device__ static void split(const float4& terms, float scale, std::uint32_t (&digits)[kDigits]) {
    gather_digits({snap_weight(terms.x, scale), snap_weight(terms.y, scale), snap_weight(terms.z, scale),
                   snap_weight(terms.w, scale)},
                  digits[0], digits[1], digits[2]);
  }
  // The operand of a matrix product: split_weights().
  __device__ static void split(const float (&terms)[kThreadTerms], const float (&terms8)[kThreadTerms], float scale,
                               float scale8, std::uint32_t (&digits)[kDigits][4]) {
    split_weights(terms, terms8, scale, scale8, digits);
  }
};

}  // namespace reprofuse::cuda::exact1
