// Rotary embedding by contract fma-1: keys and values go into the cache as floats.
#include "kernels/cuda/attention/rotary.cuh"
#include "kernels/cuda/element_types.cuh"

namespace reprofuse::cuda::ops {
namespace {

// Puts the rotated key and the value of one head where their position lies.
template <typename Kv>
struct StoreFloats {
  __device__ void operator()(const RotaryParams& p, const Head& key, int row, int page, int position, int kv_head,
                             int lane) const {
    const int half = p.kv.head_dim / 2;
    const int slot = position & (p.kv.page_size() - 1);
    const std::int64_t head = p.kv.head_offset(page, kv_head);
    auto* keys = static_cast<typename Kv::Bits*>(p.kv.keys) + head + slot;
    auto* values =
        static_cast<typename Kv::Bits*>(p.kv.values) + head + static_cast<std::int64_t>(slot) * p.kv.head_dim;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      if (d < half) {
        keys[static_cast<std::int64_t>(d) << p.kv.page_shift] = Kv::narrow(key.a[i]);
        keys[static_cast<std::int64_t>(d + half) << p.kv.page_shift] = Kv::narrow(key.b[i]);
      }
    }
    const float* v = p.v + row * p.v_stride + kv_head * p.kv.head_dim;
    for (int d = lane; d < p.kv.head_dim; d += kWarp) values[d] = Kv::narrow(v[d]);
  }
};

}  // namespace

const void* rotary_kernel(bool bf16_kv) {
  return bf16_kv ? reinterpret_cast<const void*>(&rotary_and_store<StoreFloats<Bf16Kv>>)
                 : reinterpret_cast<const void*>(&rotary_and_store<StoreFloats<F32Kv>>);
}

}  // namespace reprofuse::cuda::ops
