// Keys and values become 16-bit integers on their way into the cache.
#include "kernels/cuda/attention/int16/pages.hpp"
#include "kernels/cuda/attention/int16/params.hpp"
#include "kernels/cuda/ops/rotary.cuh"
#include "numerics/int16.hpp"

namespace reprofuse::cuda::int16::ops {
namespace {

using fma1::ops::Head;
using fma1::ops::kPairs;
using fma1::ops::RotaryParams;

__device__ std::uint32_t magnitude(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

__device__ int unit_of_warp(std::uint32_t largest) {
  return reprofuse::int16::unit_byte(__reduce_max_sync(~0u, largest));
}

// The digits of one number, in both planes.
struct DigitPlanes {
  std::int8_t* high;
  std::int64_t plane_bytes;
  int unit;
  float inverse;

  __device__ DigitPlanes(void* pages, std::int64_t head, std::int64_t plane_bytes_, int unit_)
      : high(static_cast<std::int8_t*>(pages) + 2 * head),
        plane_bytes(plane_bytes_),
        unit(unit_),
        inverse(reprofuse::int16::inverse_unit(unit_)) {}
  __device__ void store(int place, float value) const {
    const int x = unit == reprofuse::int16::kNotFinite ? 0 : reprofuse::int16::snap(value, inverse);
    high[place] = static_cast<std::int8_t>(reprofuse::int16::high_digit(x));
    high[plane_bytes + place] = static_cast<std::int8_t>(reprofuse::int16::low_digit(x));
  }
};

struct StoreDigits {
  __device__ void operator()(const RotaryParams& p, const Head& key, int row, int page, int position, int kv_head,
                             int lane) const {
    const int head_dim = p.kv.head_dim, half = head_dim / 2, slot = position & (p.kv.page_size() - 1);
    const std::int64_t head = p.kv.head_offset(page, kv_head);
    const HeadPage places{head_dim, p.kv.page_size()};
    float v[2 * kPairs];  // on their way while the key is stored
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      const int d = lane + i * kWarp;
      v[i] = d < head_dim ? p.v[row * p.v_stride + kv_head * head_dim + d] : 0.0f;
    }
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)  // zeros beyond the last
      if (lane + i * kWarp < half) largest = max(largest, max(magnitude(key.a[i]), magnitude(key.b[i])));
    const DigitPlanes keys(p.kv.keys, head, places.plane_bytes(), unit_of_warp(largest));
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      if (d >= half) continue;
      keys.store(places.key(slot, d), key.a[i]);
      keys.store(places.key(slot, d + half), key.b[i]);
    }
    largest = 0;
#pragma unroll
    for (const float value : v) largest = max(largest, magnitude(value));
    const DigitPlanes values(p.kv.values, head, places.plane_bytes(), unit_of_warp(largest));
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i)
      if (lane + i * kWarp < head_dim) values.store(places.value(slot, lane + i * kWarp), v[i]);
    if (lane != 0) return;
    const std::int64_t unit = ((static_cast<std::int64_t>(page) * p.kv.kv_heads + kv_head) << p.kv.page_shift) + slot;
    p.kv.key_units[unit] = static_cast<std::uint8_t>(keys.unit);
    p.kv.value_units[unit] = static_cast<std::uint8_t>(values.unit);
  }
};

}  // namespace

template <>
const void* rotary_kernel<TwoDigits>() {
  return reinterpret_cast<const void*>(&fma1::ops::rotary_and_store<StoreDigits>);
}

}  // namespace reprofuse::cuda::int16::ops
