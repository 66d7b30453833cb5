// The operations of a transformer other than its linear layers, and the sampler: what each is given. Backends implement
// them under the same names; kernels/reference defines their bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/sampling.hpp"
#include "reprofuse/op_calls.hpp"

namespace reprofuse::kernels {

using reprofuse::AttentionCall;
using reprofuse::Batch;
using reprofuse::Chunk;
using reprofuse::EmbeddingCall;
using reprofuse::GatherRowsCall;
using reprofuse::KvPages;
using reprofuse::RmsNormCall;
using reprofuse::RotaryCall;
using reprofuse::SiluGateCall;

// An element of the key or the value that a page has of one position and head.
enum class Cached { kKey, kValue };
struct ElementInPage {
  std::int64_t page_size, head_dim;
  std::int64_t head = 0, slot = 0, element = 0;  // slot: the position within the page
};

inline constexpr std::int32_t kMinPageSize = 16;  // positions of a page of keys and values

// A power of two, so that kernels find a position's page and its place there by shifts.
constexpr bool is_page_size(std::int64_t positions) {
  return positions >= kMinPageSize && positions <= INT32_MAX && (positions & (positions - 1)) == 0;
}

// The most rows of a pass: attention on CUDA puts rows in y or z of a grid, which end at 65,535.
inline constexpr std::int64_t kMaxBatchRows = 65535;

inline constexpr std::size_t kWorkspaceAlignment = 256;

// Where a result is not finite. The column is one of a linear layer's concatenated outputs, the head of an attention,
// or 0.
struct NonFinite {
  std::int64_t row;
  std::int64_t column;
};

// The first non-finite result that a workspace has a record of: smallest op, then row, then column.
struct OpNonFinite {
  unsigned op;
  NonFinite place;
};

// Where an operation runs: OpScope (ops/) without the context, plus the op's index. The workspace serves one call at
// a time.
struct OpSite {
  unsigned op = 0;  // identifies the op in a record
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* stream = nullptr;
};

// x = x rounded to BF16, ties to even: for the baseline that keeps its activations in 16 bits.
struct RoundBf16Call {
  Matrix x;
};

// One row of logits to one token: what every backend takes and gives, on host and device alike.
struct SampleRow {
  const float* logits = nullptr;        // [vocabulary]
  const std::uint32_t* seen = nullptr;  // [ceil(vocabulary / 32)]: bit v of the words says that id v is in the sequence
  SamplingParams params;
  std::uint64_t position = 0;  // of the token to be chosen
  std::int32_t given = -1;     // a token that is chosen already; only its log-probability is asked for
  int logprobs = -1;           // how many of the most likely tokens to report, 0 to 20; -1: not even the chosen one's
  bool logits_root = false;    // whether it is asked for
};

using reprofuse::SampleResult;
using reprofuse::TokenLogprob;

REPROFUSE_HOST_DEVICE inline bool is_seen(const std::uint32_t* seen, std::int64_t id) {
  return seen != nullptr && (seen[id / 32] >> (id % 32) & 1U) != 0;
}

// `logit` is that of the id.
REPROFUSE_HOST_DEVICE inline float penalized_logit(const SampleRow& row, std::int64_t id, float logit) {
  return is_seen(row.seen, id) ? sampling::penalized(logit, row.params.repetition_penalty) : logit;
}

REPROFUSE_HOST_DEVICE inline float penalized_logit(const SampleRow& row, std::int64_t id) {
  return penalized_logit(row, id, row.logits[id]);
}

}  // namespace reprofuse::kernels
