// The operations of a transformer beside its linear layers: what each is given. Backends implement them under the same
// names; kernels/reference defines their bits.
#pragma once

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

// x = x rounded to BF16, ties to even: for the baseline that keeps its activations in 16 bits.
struct RoundBf16Call {
  Matrix x;
};

}  // namespace reprofuse::kernels
