// The definition of every bit, as plain loops, one output at a time. NUMERICS.md says the same in words. Those that can
// fail return the first place where they do, by row and then column.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "kernels/op_calls.hpp"
#include "kernels/schemes.hpp"
#include "numerics/exact1.hpp"
#include "numerics/float_ops.hpp"
#include "numerics/int16.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse::reference {

// The linear layer by contract fma-1. bias may be null. The operands must be finite; the caller checks the results.
void linear_fma1(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y);

inline constexpr kernels::LinearScheme kLinearFma1{.name = "fma-1", .reference = linear_fma1};

// One element of a weight matrix, widened.
float widened(const WeightView& weight, std::int64_t row, std::int64_t col);

// The linear layer by contract exact-1, in plain 64-bit integers: a row of one operand.
struct SnappedRow {
  std::vector<std::int32_t> values;
  int exponent = 0;
  bool finite = true;  // otherwise the values say nothing
};

SnappedRow snap_activations(const float* x, std::int64_t k);
SnappedRow snap_weights(const WeightView& weight, std::int64_t row);

// The sum over the terms [begin, end). Such sums over any parts of K, added in any order, are the sum over K: a machine
// may own a part, if all take the exponents of whole rows.
std::int64_t sum_terms(const SnappedRow& x, const SnappedRow& w, std::int64_t begin, std::int64_t end);

// bias may be null. A row with a NaN or an infinity gives NaN; the caller checks the results.
void linear_exact1(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y);

inline constexpr kernels::LinearScheme kLinearExact1{.name = "exact-1",
                                                     .reference = linear_exact1,
                                                     .max_terms = exact1::kMaxTerms,
                                                     .multiplier = kernels::Multiplier::kInteger8};

// Numbers that share a unit by contract int16-1.
struct Snapped {
  std::vector<std::int32_t> values;  // zeros, where a number is not finite
  int unit = int16::kMinUnit;        // its byte
};

Snapped snap16(const float* x, std::int64_t count);

// The linear layer by contract int16-1. bias may be null. A row with a NaN or an infinity gives NaN.
void linear_int16(ConstMatrix x, const WeightView& weight, const float* bias, Matrix y);

inline constexpr kernels::LinearScheme kLinearInt16{.name = "int16-1",
                                                    .reference = linear_int16,
                                                    .max_terms = int16::kMaxTerms,
                                                    .multiplier = kernels::Multiplier::kInteger8};

// The operations of a transformer other than its linear layers.
float sum_of_squares(const float* x, std::int64_t k);  // the reduction of every norm, over a row or over a head

void embedding(const kernels::EmbeddingCall& call);
std::optional<kernels::NonFinite> rms_norm(const kernels::RmsNormCall& call);  // column 0
void rotary(const kernels::RotaryCall& call);
std::optional<kernels::NonFinite> attention(const kernels::AttentionCall& call);  // column: the head
void silu_gate(const kernels::SiluGateCall& call);
void gather_rows(const kernels::GatherRowsCall& call);
void round_bf16(const kernels::RoundBf16Call& call);

inline constexpr kernels::CacheFormat kCacheF32{.name = "f32", .element_bytes = 4, .dtype = DType::kF32};
inline constexpr kernels::CacheFormat kCacheBf16{.name = "bf16", .element_bytes = 2, .dtype = DType::kBF16};
inline constexpr const kernels::CacheFormat* kCachesFma1[] = {&kCacheF32, &kCacheBf16};
inline constexpr kernels::AttentionScheme kAttentionFma1{
    .name = "fma-1", .rotary = rotary, .attention = attention, .caches = kCachesFma1};

void rotary_int16(const kernels::RotaryCall& call);
std::optional<kernels::NonFinite> attention_int16(const kernels::AttentionCall& call);  // column: the head

inline constexpr kernels::CacheFormat kCacheInt16{.name = "int16", .element_bytes = 2, .unit_bytes = 1};
inline constexpr const kernels::CacheFormat* kCachesInt16[] = {&kCacheInt16};
inline constexpr kernels::AttentionScheme kAttentionInt16{
    .name = "int16-1", .rotary = rotary_int16, .attention = attention_int16, .caches = kCachesInt16};

// The same with three digits, by contract exact-2.
void rotary_exact2(const kernels::RotaryCall& call);
std::optional<kernels::NonFinite> attention_exact2(const kernels::AttentionCall& call);  // column: the head

inline constexpr kernels::CacheFormat kCacheInt24{.name = "int24", .element_bytes = 3, .unit_bytes = 1};
inline constexpr const kernels::CacheFormat* kCachesExact2[] = {&kCacheInt24};
inline constexpr kernels::AttentionScheme kAttentionExact2{
    .name = "exact-2", .rotary = rotary_exact2, .attention = attention_exact2, .caches = kCachesExact2};

inline constexpr kernels::ElementwiseScheme kElementwiseFma1{
    .name = "fma-1", .embedding = embedding, .rms_norm = rms_norm, .silu_gate = silu_gate};

// The Merkle root of a row of logits.
Sha256::Digest logits_root(std::span<const float> row);

// The sampler's results: sort, cut, walk.
kernels::SampleResult sample(const kernels::SampleRow& row, std::int64_t vocabulary);

// Where the key and the value of one position and head lie in the pages. The kernels find it by code of their own, so
// that a mistake in one shows.
struct KvPlace {
  std::int64_t head;  // elements before this page and head
  std::int64_t slot;  // within the page
  std::int64_t page_size;
  std::int64_t head_dim;

  std::int64_t key(std::int64_t d) const { return head + d * page_size + slot; }
  std::int64_t value(std::int64_t d) const { return head + slot * head_dim + d; }

  // The same in a cache of 16-bit integers: [head_dim / 2][page_size][2] keys and [page_size / 2][head_dim][2] values,
  // since what multiplies them takes pairs.
  std::int64_t paired_key(std::int64_t d) const { return head + (d / 2 * page_size + slot) * 2 + d % 2; }
  std::int64_t paired_value(std::int64_t d) const { return head + (slot / 2 * head_dim + d) * 2 + slot % 2; }
};

// An integer of two or three digits, at a paired place. With three, the upper two of all elements of a page and head
// come first, as 16-bit integers; the lowest ones follow in the same order.
std::int32_t load_integer(const void* pages, int digits, const KvPlace& place, std::int64_t index);
void store_integer(void* pages, int digits, const KvPlace& place, std::int64_t index, std::int32_t x);
std::int32_t integer_in_page(const void* page, int digits, kernels::Cached which, const kernels::ElementInPage& at);

inline KvPlace find_place(const kernels::KvPages& kv, const kernels::Batch& batch, std::int64_t sequence,
                          std::int64_t position, std::int64_t kv_head) {
  const std::int64_t page = batch.page_table[sequence * batch.page_table_stride + position / kv.page_size];
  return {.head = (page * kv.kv_heads + kv_head) * kv.head_dim * kv.page_size,
          .slot = position % kv.page_size,
          .page_size = kv.page_size,
          .head_dim = kv.head_dim};
}

// Norms, rotation, and `store` for each head of keys and values.
using StoreHead = void (*)(const kernels::RotaryCall& call, const KvPlace& place, const float* key, const float* value);
void rotate_rows(const kernels::RotaryCall& call, StoreHead store);

inline float load_element(const void* elements, DType dtype, std::int64_t i) {
  return widen(dtype, load_weight(elements, dtype, i));
}

inline void store_element(void* elements, DType dtype, std::int64_t i, float value) {
  store_weight(elements, dtype, i,
               dtype == DType::kBF16 ? round_bf16_finite(value) : std::bit_cast<std::uint32_t>(value));
}

}  // namespace reprofuse::reference
