// Keys and values become integers of three digits on their way into the cache, by contract exact-2.
#include "kernels/cuda/attention/int16/pages.hpp"
#include "kernels/cuda/attention/int16/params.hpp"
#include "kernels/cuda/ops/rotary.cuh"

namespace reprofuse::cuda::int16::ops {
namespace {

using fma1::ops::Head;
using fma1::ops::kPairs;
using fma1::ops::RotaryParams;

// A lane's numbers of one head, which share a unit.
struct SnappedHead {
  int unit;
  float inverse;

  template <int kCount>
  __device__ explicit SnappedHead(const float (&numbers)[kCount]) {
    std::uint32_t largest = 0;
#pragma unroll
    for (const float number : numbers) largest = max(largest, __float_as_uint(number) & 0x7fffffffu);
    unit = ThreeDigits::unit_byte(__reduce_max_sync(~0u, largest));
    inverse = reprofuse::int16::inverse_unit(unit);
  }
  __device__ void store(float number, std::int8_t* to, std::int64_t plane_bytes) const {
    const int x = unit == reprofuse::int16::kNotFinite ? 0 : ThreeDigits::snap(number, inverse);
    const int upper = upper_digits(x);
    to[0] = static_cast<std::int8_t>(upper_digits(upper));
    to[plane_bytes] = static_cast<std::int8_t>(lowest_digit(upper));
    to[2 * plane_bytes] = static_cast<std::int8_t>(lowest_digit(x));
  }
};

struct StoreThreeDigits {
  __device__ void operator()(const RotaryParams& p, const Head& key, int row, int page, int position, int kv_head,
                             int lane) const {
    const int head_dim = p.kv.head_dim, half = head_dim / 2, slot = position & (p.kv.page_size() - 1);
    const std::int64_t head = 3 * p.kv.head_offset(page, kv_head);
    const HeadPage places{head_dim, p.kv.page_size()};
    float k[2 * kPairs], v[2 * kPairs];  // zeros beyond the last
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      const int d = lane + i * kWarp;
      v[i] = d < head_dim ? p.v[row * p.v_stride + kv_head * head_dim + d] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const bool exists = lane + i * kWarp < half;
      k[2 * i] = exists ? key.a[i] : 0.0f;
      k[2 * i + 1] = exists ? key.b[i] : 0.0f;
    }
    const SnappedHead keys(k), values(v);
    std::int8_t* const key_digits = static_cast<std::int8_t*>(p.kv.keys) + head;
    std::int8_t* const value_digits = static_cast<std::int8_t*>(p.kv.values) + head;
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      const int of_half = lane + i / 2 * kWarp, d = lane + i * kWarp;
      if (of_half < half) keys.store(k[i], key_digits + places.key(slot, of_half + i % 2 * half), places.plane_bytes());
      if (d < head_dim) values.store(v[i], value_digits + places.value(slot, d), places.plane_bytes());
    }
    if (lane != 0) return;
    const std::int64_t unit = ((static_cast<std::int64_t>(page) * p.kv.kv_heads + kv_head) << p.kv.page_shift) + slot;
    p.kv.key_units[unit] = static_cast<std::uint8_t>(keys.unit);
    p.kv.value_units[unit] = static_cast<std::uint8_t>(values.unit);
  }
};

}  // namespace

template <>
const void* rotary_kernel<ThreeDigits>() {
  return reinterpret_cast<const void*>(&fma1::ops::rotary_and_store<StoreThreeDigits>);
}

}  // namespace reprofuse::cuda::int16::ops
