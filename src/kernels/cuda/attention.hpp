// How attention cuts its work, with the door that tests and ablations need: running a schedule of their choice. No
// choice made here can move a bit.
#pragma once

#include "kernels/cuda/model_ops.hpp"

namespace reprofuse::cuda {

enum class AttentionKernels { kDecode, kPrefill, kBoth };

struct AttentionSchedule {
  AttentionKernels kernels;  // kDecode: every row; kBoth: decode for chunks of one row, prefill for the others
  int splits;                // decode: blocks that share the keys of a row; 1: no partials, no merge
  bool one_buffer;           // decode: keys and values take turns in shared memory
  bool prefetch;             // decode: keys and values come to the L2 while the kernels ahead still run
};

AttentionSchedule choose_attention_schedule(const Launch& launch, const kernels::AttentionCall& call);
void attention_with(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule);

}  // namespace reprofuse::cuda
