// The definition of every bit of a transformer beside its linear layers, as plain loops. NUMERICS.md says the same in
// words. Each returns the first place where it fails, by row and then column, as kernels/model_ops.hpp defines failing.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/linear.hpp"
#include "kernels/model_ops.hpp"
#include "kernels/schemes.hpp"

namespace reprofuse::reference {

float sum_of_squares(const float* x, std::int64_t k);  // the reduction of every norm, over a row or over a head

void embedding(const kernels::EmbeddingCall& call);
std::optional<kernels::Place> rms_norm(const kernels::RmsNormCall& call);  // column 0
void rotary(const kernels::RotaryCall& call);
std::optional<kernels::Place> attention(const kernels::AttentionCall& call);  // column: the head
void silu_gate(const kernels::SiluGateCall& call);
void gather_rows(const kernels::GatherRowsCall& call);
void round_bf16(const kernels::RoundBf16Call& call);

inline constexpr kernels::CacheFormat kCacheF32{.name = "f32", .element_bytes = 4, .dtype = DType::kF32};
inline constexpr kernels::CacheFormat kCacheBf16{.name = "bf16", .element_bytes = 2, .dtype = DType::kBF16};
inline constexpr kernels::AttentionScheme kAttentionFma1{.name = "fma-1", .rotary = rotary, .attention = attention};
inline constexpr kernels::ElementwiseScheme kElementwiseFma1{
    .name = "fma-1", .embedding = embedding, .rms_norm = rms_norm, .silu_gate = silu_gate};

}  // namespace reprofuse::reference
