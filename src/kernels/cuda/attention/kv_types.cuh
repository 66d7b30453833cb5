// The two formats of keys and values as a kernel sees them.
#pragma once

#include <cstdint>

namespace reprofuse::cuda {

struct F32Kv {
  using Bits = std::uint32_t;
  __device__ static float widen(Bits bits) { return __uint_as_float(bits); }
  __device__ static Bits narrow(float value) { return __float_as_uint(value); }
};

struct Bf16Kv {
  using Bits = std::uint16_t;
  __device__ static float widen(Bits bits) { return __uint_as_float(std::uint32_t{bits} << 16); }
  // To nearest, ties to even, as round_bf16 of numerics/widen.hpp.
  __device__ static Bits round(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    return static_cast<Bits>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
  // And finite where the value is, as round_bf16_finite.
  __device__ static Bits narrow(float value) {
    const std::uint32_t rounded = round(value);
    const bool overflowed = (rounded & 0x7fffu) == 0x7f80u && (__float_as_uint(value) & 0x7fffffffu) < 0x7f800000u;
    return static_cast<Bits>(overflowed ? rounded - 1 : rounded);
  }
};

}  // namespace reprofuse::cuda
