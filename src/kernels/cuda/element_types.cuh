// The formats of weights, keys and values as a kernel sees them.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace reprofuse::cuda {

__device__ inline std::uint32_t word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Weights: how many fit in 16 bytes, and their exact binary32 values. element(v, i) widens the i-th of a vector; i is
// known at compile time wherever it is called.
struct Bf16Weight {
  using Bits = std::uint16_t;
  static constexpr int kPerVector = 8;
  __device__ static float element(const uint4& v, int i) {
    return __uint_as_float(i % 2 == 0 ? word(v, i / 2) << 16 : word(v, i / 2) & 0xffff0000u);
  }
};

struct F16Weight {
  using Bits = std::uint16_t;
  static constexpr int kPerVector = 8;
  __device__ static float element(const uint4& v, int i) {
    return __half2float(__ushort_as_half(static_cast<Bits>(word(v, i / 2) >> (i % 2 * 16))));
  }
};

struct F32Weight {
  using Bits = std::uint32_t;
  static constexpr int kPerVector = 4;
  __device__ static float element(const uint4& v, int i) { return __uint_as_float(word(v, i)); }
};

// Keys and values.
struct F32Kv {
  using Bits = std::uint32_t;
  __device__ static float widen(Bits bits) { return __uint_as_float(bits); }
  __device__ static Bits narrow(float value) { return __float_as_uint(value); }
};

struct Bf16Kv {
  using Bits = std::uint16_t;
  __device__ static float widen(Bits bits) { return __uint_as_float(std::uint32_t{bits} << 16); }
  // To nearest, ties to even, and a NaN stays one, as round_bf16 of numerics/float_ops.hpp.
  __device__ static Bits round(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<Bits>(is_nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  // And finite where the value is, as round_bf16_finite.
  __device__ static Bits narrow(float value) {
    const std::uint32_t rounded = round(value);
    const bool overflowed = (rounded & 0x7fffu) == 0x7f80u && (__float_as_uint(value) & 0x7fffffffu) < 0x7f800000u;
    return static_cast<Bits>(overflowed ? rounded - 1 : rounded);
  }
};

}  // namespace reprofuse::cuda
