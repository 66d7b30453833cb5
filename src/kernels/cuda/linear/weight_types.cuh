// The three weight formats as a kernel sees them: how many fit in 16 bytes, and their exact binary32 values.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace reprofuse::cuda {

__device__ inline std::uint32_t word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// element(v, i) widens the i-th weight of a vector; i is known at compile time wherever it is called.
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

}  // namespace reprofuse::cuda
