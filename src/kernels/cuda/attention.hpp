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
  bool cluster = false;      // decode: a cluster has a row, and folds it; no splits, no prefetch
};

// Clusters that the device holds at once, if each has a row and some heads, and each of its blocks a key block; 0: the
// shape does not fit into clusters.
int attention_clusters_at_once(const Launch& launch, const kernels::AttentionCall& call);

AttentionSchedule choose_attention_schedule(const Launch& launch, const kernels::AttentionCall& call);
void attention_with(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule);

}  // namespace reprofuse::cuda
