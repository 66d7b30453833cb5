// Keys and values become 16-bit integers on their way into the cache, a head of a row in the registers of a warp.
#pragma once

#include "kernels/cuda/attention/int16/pages.hpp"
#include "kernels/cuda/ops/rotary.cuh"
#include "numerics/int16.hpp"

namespace reprofuse::cuda::int16::ops {

using fma1::ops::Head;
using fma1::ops::kPairs;
using fma1::ops::RotaryParams;

// What the numbers of a warp count in. Beside one that is not finite all integers are 0.
struct WarpUnit {
  int unit;
  float inverse;

  __device__ explicit WarpUnit(std::uint32_t largest)
      : unit(reprofuse::int16::unit_byte(__reduce_max_sync(~0u, largest))),
        inverse(reprofuse::int16::inverse_unit(unit)) {}
  __device__ int integer(float value) const {
    return unit == reprofuse::int16::kNotFinite ? 0 : reprofuse::int16::snap(value, inverse);
  }
  __device__ static std::uint32_t magnitude(float value) { return __float_as_uint(value) & 0x7fffffffu; }
};

// Both digits of an integer, in two planes.
__device__ inline void store_digits(std::int8_t* high, std::int64_t plane_bytes, int x) {
  high[0] = static_cast<std::int8_t>(reprofuse::int16::high_digit(x));
  high[plane_bytes] = static_cast<std::int8_t>(reprofuse::int16::low_digit(x));
}

// Calls take(d, value) for the lane's elements of a head.
template <typename Take>
__device__ inline void for_each_element(const Head& head, int head_dim, int lane, const Take& take) {
  const int half = head_dim / 2;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int d = lane + i * kWarp;
    if (d >= half) continue;
    take(d, head.a[i]);
    take(d + half, head.b[i]);
  }
}

__device__ inline WarpUnit unit_of(const Head& head, int head_dim, int lane) {
  std::uint32_t largest = 0;
  for_each_element(head, head_dim, lane, [&](int, float value) { largest = max(largest, WarpUnit::magnitude(value)); });
  return WarpUnit(largest);
}

// A row's key, rotated, and its value, of one head.
struct KeyAndValue {
  Head key, value;
  WarpUnit key_unit, value_unit;

  __device__ KeyAndValue(const Head& turned_key, const Head& value_, int head_dim, int lane)
      : key(turned_key),
        value(value_),
        key_unit(unit_of(key, head_dim, lane)),
        value_unit(unit_of(value, head_dim, lane)) {}

  __device__ void store(const KvView& kv, int page, int position, int kv_head, int head_dim, int lane) const {
    const int slot = position & (kv.page_size() - 1);
    const std::int64_t head = kv.head_offset(page, kv_head);
    const HeadPage places{head_dim, kv.page_size()};
    auto* keys = static_cast<std::int8_t*>(kv.keys) + 2 * head;
    auto* values = static_cast<std::int8_t*>(kv.values) + 2 * head;
    for_each_element(key, head_dim, lane, [&](int d, float x) {
      store_digits(keys + places.key(slot, d), places.plane_bytes(), key_unit.integer(x));
    });
    for_each_element(value, head_dim, lane, [&](int d, float x) {
      store_digits(values + places.value(slot, d), places.plane_bytes(), value_unit.integer(x));
    });
    if (lane != 0) return;
    const std::int64_t unit = ((static_cast<std::int64_t>(page) * kv.kv_heads + kv_head) << kv.page_shift) + slot;
    kv.key_units[unit] = static_cast<std::uint8_t>(key_unit.unit);
    kv.value_units[unit] = static_cast<std::uint8_t>(value_unit.unit);
  }
};

}  // namespace reprofuse::cuda::int16::ops
