// Rotary embedding that stores a rotated key, and its value, as digits in their pages.
#include "kernels/cuda/attention/integer/params.hpp"
#include "kernels/cuda/attention/integer/store_digits.cuh"

namespace reprofuse::cuda::integer_attention {
namespace {

template <typename N>
struct StoreDigits {
  __device__ void operator()(const RotaryParams& p, const Head& key, int row, int page, int position, int kv_head,
                             int lane) const {
    const int head_dim = p.kv.head_dim;
    Head value;
    value.load(p.v + row * p.v_stride + kv_head * head_dim, head_dim / 2, lane);
    KeyAndValue<N>(key, value, head_dim, lane).store(p.kv, page, position, kv_head, head_dim, lane);
  }
};

}  // namespace

template <>
const void* rotary_kernel<TwoDigits>() {
  return reinterpret_cast<const void*>(&ops::rotary_and_store<StoreDigits<TwoDigits>>);
}

template <>
const void* rotary_kernel<ThreeDigits>() {
  return reinterpret_cast<const void*>(&ops::rotary_and_store<StoreDigits<ThreeDigits>>);
}

}  // namespace reprofuse::cuda::integer_attention
