// How attention splits its work, and an entry point for tests and ablations that runs a given schedule. No schedule
// changes a bit.
#pragma once

#include "kernels/cuda/ops/model_ops.hpp"

namespace reprofuse::cuda {

enum class AttentionKernels { kDecode, kPrefill, kBoth };

enum class DecodeBy {
  kThreads,  // which copy keys and values to shared memory themselves: on any device, for any shape
  kStream,   // the TMA brings them, to warps that have different tasks
  kCluster,  // likewise, to a cluster that has a row and folds it: no splits
};

struct AttentionSchedule {
  AttentionKernels kernels;  // kDecode: every row; kBoth: decode for chunks of one row, prefill for the others
  int splits;                // decode: CTAs that share the keys of a row; 1: no partials, no merge
  bool one_buffer;           // decode by threads: keys and values take turns in shared memory
  bool prefetch;             // decode by threads: keys and values come to the L2 while the kernels ahead still run
  DecodeBy decode = DecodeBy::kThreads;
  bool small_merge = false;  // the merge for a device with little shared memory
  int stages = 0;            // decode by stream: tiles in shared memory, two or more; 0: as many as there is room for
};

// The tiles that a CTA which streams has room for, so that two CTAs fit a multiprocessor, or else one; 0: the
// device has no TMA, the shape does not suit it, or not even two tiles fit.
int attention_stream_stages(const Launch& launch, const kernels::AttentionCall& call);

// Clusters that the device holds at once, if each has a row and some heads, and each of its CTAs a key block; 0: the
// shape does not fit into clusters.
int attention_clusters_at_once(const Launch& launch, const kernels::AttentionCall& call);

AttentionSchedule choose_attention_schedule(const Launch& launch, const kernels::AttentionCall& call);
void attention_with(const Launch& launch, const kernels::AttentionCall& call, const AttentionSchedule& schedule);

}  // namespace reprofuse::cuda
