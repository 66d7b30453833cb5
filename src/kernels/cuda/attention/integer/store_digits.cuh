// Keys and values become integers of N on their way into the cache, a head of a row in the registers of a warp.
#pragma once

#include "kernels/cuda/attention/integer/params.hpp"
#include "kernels/cuda/attention/rotary.cuh"
#include "numerics/attention_integer.hpp"

namespace reprofuse::cuda::integer_attention {

using ops::Head;
using ops::kPairs;
using ops::RotaryParams;

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

// What the numbers of a head count in. Beside one that is not finite all integers are 0.
template <typename N>
struct WarpUnit {
  int unit;
  float inverse;

  __device__ WarpUnit(const Head& head, int head_dim, int lane) {
    std::uint32_t largest = 0;
    for_each_element(head, head_dim, lane, [&](int, float value) { largest = max(largest, magnitude_bits(value)); });
    unit = N::unit_byte(__reduce_max_sync(~0u, largest));
    inverse = reprofuse::int16::inverse_unit(unit);
  }
  // The digits of a number, in planes; `to` is the place of the highest.
  __device__ void store(std::int8_t* to, std::int64_t plane_bytes, float value) const {
    int x = unit == reprofuse::int16::kNotFinite ? 0 : N::snap(value, inverse);
#pragma unroll
    for (int digit = N::kDigits - 1; digit > 0; --digit) {
      to[digit * plane_bytes] = static_cast<std::int8_t>(lowest_digit(x));
      x = upper_digits(x);
    }
    to[0] = static_cast<std::int8_t>(x);
  }
};

// A row's key, rotated, and its value, of one head.
template <typename N>
struct KeyAndValue {
  Head key, value;
  WarpUnit<N> key_unit, value_unit;

  __device__ KeyAndValue(const Head& rotated_key, const Head& value_, int head_dim, int lane)
      : key(rotated_key), value(value_), key_unit(key, head_dim, lane), value_unit(value, head_dim, lane) {}

  __device__ void store(const KvView& kv, int page, int position, int kv_head, int head_dim, int lane) const {
    const int slot = position & (kv.page_size() - 1);
    const std::int64_t head = N::kDigits * kv.head_offset(page, kv_head);
    const HeadPage places{head_dim, kv.page_size()};
    auto* keys = static_cast<std::int8_t*>(kv.keys) + head;
    auto* values = static_cast<std::int8_t*>(kv.values) + head;
    for_each_element(key, head_dim, lane,
                     [&](int d, float x) { key_unit.store(keys + places.key(slot, d), places.plane_bytes(), x); });
    for_each_element(value, head_dim, lane, [&](int d, float x) {
      value_unit.store(values + places.value(slot, d), places.plane_bytes(), x);
    });
    if (lane != 0) return;
    const std::int64_t unit = ((static_cast<std::int64_t>(page) * kv.kv_heads + kv_head) << kv.page_shift) + slot;
    kv.key_units[unit] = static_cast<std::uint8_t>(key_unit.unit);
    kv.value_units[unit] = static_cast<std::uint8_t>(value_unit.unit);
  }
};

}  // namespace reprofuse::cuda::integer_attention
