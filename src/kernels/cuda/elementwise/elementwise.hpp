// Norms, rotary and element-wise operations on CUDA, and what the host side of any operation does first.
#pragma once

#include <bit>
#include <cstddef>

#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/elementwise/params.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/device.hpp"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/op_calls.hpp"

namespace reprofuse::cuda {

// Where an operation runs. Nothing is waited for: results, and the record of what is not finite, are there when the
// stream is done. A non-finite result is recorded with `op`, its row and its column, which is 0 for a norm and the head
// for attention.
struct Launch : kernels::OpSite {  // whose workspace begins with the record, kWorkspaceHead bytes
  int ordinal = 0;
};

void embedding(const Launch& launch, const kernels::EmbeddingCall& call);
void rms_norm(const Launch& launch, const kernels::RmsNormCall& call);
void rotary(const Launch& launch, const kernels::RotaryCall& call);
void rotary_with(const Launch& launch, const kernels::RotaryCall& call, const void* kernel);  // rotary_and_store<...>
void silu_gate(const Launch& launch, const kernels::SiluGateCall& call);
void gather_rows(const Launch& launch, const kernels::GatherRowsCall& call);
void round_bf16(const Launch& launch, const kernels::RoundBf16Call& call);

// What kernels of these are given that leave more than the op's own result.
ops::RmsNormParams norm_params(const Launch& launch, const kernels::RmsNormCall& call);
ops::SiluGateParams silu_gate_params(const kernels::SiluGateCall& call);
ops::RotaryParams rotary_params(const kernels::RotaryCall& call);

inline void require_rows(const char* op, std::int64_t rows) {
  require(rows < kMaxRows, "{}: {} rows; the CUDA backend takes fewer than {} in one call", op, rows, kMaxRows);
}

inline Record* record_of(const Launch& launch) {
  return static_cast<Record*>(launch.workspace);
}

// The kernels' view of the pages; refuses those that they cannot read.
inline KvView view_of(const char* op, const kernels::KvPages& kv, const kernels::Batch& batch) {
  const auto page_size = static_cast<unsigned>(kv.page_size);
  require(std::has_single_bit(page_size) && page_size >= kernels::kMinPageSize,
          "{}: page size {} is not a power of two from {} up", op, kv.page_size, kernels::kMinPageSize);
  require(kv.dtype != DType::kF16, "{}: keys and values in f16 are not supported", op);
  return {.keys = kv.keys,
          .values = kv.values,
          .key_units = static_cast<std::uint8_t*>(kv.key_units),
          .value_units = static_cast<std::uint8_t*>(kv.value_units),
          .page_table = batch.page_table,
          .page_table_stride = batch.page_table_stride,
          .kv_heads = kv.kv_heads,
          .head_dim = kv.head_dim,
          .page_shift = std::countr_zero(page_size)};
}

}  // namespace reprofuse::cuda
