// Rotation of queries and keys, and how keys and values get into the pages.
#include <algorithm>
#include <vector>

#include "kernels/cpu/attention/attention.hpp"
#include "kernels/cpu/elementwise/elementwise.hpp"
#include "kernels/cpu/work_split.hpp"
#include "numerics/attention_integer.hpp"
#include "numerics/float_ops.hpp"

namespace reprofuse::cpu {
namespace {

using kernels::RotaryCall;

// Stores values `stride` elements apart.
void store_elements(const float* values, std::int64_t count, DType dtype, void* to, std::int64_t stride) {
  if (dtype == DType::kBF16) {
    auto* halves = static_cast<std::uint16_t*>(to);
    for (std::int64_t i = 0; i < count; ++i)
      halves[i * stride] = static_cast<std::uint16_t>(round_bf16_finite(values[i]));
  } else {
    auto* floats = static_cast<float*>(to);
    for (std::int64_t i = 0; i < count; ++i) floats[i * stride] = values[i];
  }
}

// Stores the key and the value of one head of row m.
using StoreHead = void (*)(const RotaryCall& call, std::int64_t m, std::int64_t kv_head, const float* key,
                           const float* value);

void store_floats(const RotaryCall& call, std::int64_t m, std::int64_t kv_head, const float* key, const float* value) {
  const kernels::KvPages& kv = call.kv;
  const KvPlace place = find_place(kv, call.batch, call.batch.sequences[m], call.batch.positions[m], kv_head);
  store_elements(key, kv.head_dim, kv.dtype, place.key, kv.page_size);
  store_elements(value, kv.head_dim, kv.dtype, place.value, 1);
}

// The unit of some numbers, and the numbers in it: kStep elements side by side, `stride` apart from the next ones. Of
// three digits the lowest goes to `low`.
template <typename N, std::int64_t kStep>
int store_integers(const float* values, std::int64_t count, std::byte* to, std::int8_t* low, std::int64_t stride) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(values[i]));
  const int unit = N::unit_byte(largest);
  const float inverse = int16::inverse_unit(unit);
  auto* integers = reinterpret_cast<std::int16_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t integer = unit == int16::kNotFinite ? 0 : N::snap(values[i], inverse);
    const std::int64_t place = i / kStep * stride + i % kStep;
    integers[place] = static_cast<std::int16_t>(N::kDigits == 2 ? integer : upper_digits(integer));
    if constexpr (N::kDigits == 3) low[place] = static_cast<std::int8_t>(lowest_digit(integer));
  }
  return unit;
}

template <typename N>
void store_digits(const RotaryCall& call, std::int64_t m, std::int64_t kv_head, const float* key, const float* value) {
  const kernels::KvPages& kv = call.kv;
  const KvPlace place =
      find_digits_place<N::kDigits>(kv, call.batch, call.batch.sequences[m], call.batch.positions[m], kv_head);
  *place.key_unit = static_cast<std::uint8_t>(
      store_integers<N, 2>(key, kv.head_dim, place.key, place.key_low, std::int64_t{2} * kv.page_size));
  *place.value_unit =
      static_cast<std::uint8_t>(store_integers<N, 1>(value, kv.head_dim, place.value, place.value_low, 2));
}

// One row: rotates its queries in place, its keys by way of `key`, which holds a head, and stores its values.
void rotate_row(const ElementwiseKernels& kernels, const RotaryCall& call, std::int64_t m, float* key,
                StoreHead store) {
  const kernels::KvPages& kv = call.kv;
  const std::int64_t position = call.batch.positions[m];
  RotaryHead head{.head = nullptr,
                  .weight = call.q_norm,
                  .eps = call.eps,
                  .head_dim = kv.head_dim,
                  .cos = call.cos + position * (kv.head_dim / 2),
                  .sin = call.sin + position * (kv.head_dim / 2),
                  .rotated = nullptr};
  float* q = call.q.data + m * call.q.stride;
  for (std::int64_t i = 0; i + kv.head_dim <= call.q.cols; i += kv.head_dim) {
    head.head = head.rotated = q + i;
    kernels.rotary_head(head);
  }
  head.weight = call.k_norm;
  head.rotated = key;
  for (std::int64_t h = 0; h < kv.kv_heads; ++h) {
    head.head = call.k.data + m * call.k.stride + h * kv.head_dim;
    kernels.rotary_head(head);
    store(call, m, h, key, call.v.data + m * call.v.stride + h * kv.head_dim);
  }
}

void rotate_rows(const CpuDevice& device, const RotaryCall& call, StoreHead store) {
  const ElementwiseKernels& kernels = elementwise_kernels(device.isa);
  const auto head_dim = static_cast<std::size_t>(call.kv.head_dim);
  std::vector<float> keys(static_cast<std::size_t>(device.pool->threads()) * head_dim);
  for_each_row(*device.pool, call.q.rows, call.q.cols + 2 * call.k.cols, [&](std::int64_t m, int worker) {
    rotate_row(kernels, call, m, keys.data() + static_cast<std::size_t>(worker) * head_dim, store);
  });
}

}  // namespace

void rotary(const CpuDevice& device, const RotaryCall& call) {
  rotate_rows(device, call, store_floats);
}

void rotary_int16(const CpuDevice& device, const RotaryCall& call) {
  rotate_rows(device, call, store_digits<TwoDigits>);
}

void rotary_exact2(const CpuDevice& device, const RotaryCall& call) {
  rotate_rows(device, call, store_digits<ThreeDigits>);
}

}  // namespace reprofuse::cpu
