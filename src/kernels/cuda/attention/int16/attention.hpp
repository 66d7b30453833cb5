// Attention by contracts int16-1 and exact-2 on CUDA: the kernels, how they split their work, and an entry point for
// tests and ablations that runs a given schedule. No schedule changes a bit. `digits`: two by int16-1, three by
// exact-2.
#pragma once

#include <cstddef>

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/int16/params.hpp"

namespace reprofuse::cuda {

enum class Int16Decode {
  kRows,     // threads read digits from the pages themselves: on any device, for any heads
  kStream,   // the TMA brings them
  kCluster,  // likewise, to a cluster whose CTAs have a key block each and fold the row: no splits
};

struct Int16Schedule {
  AttentionKernels kernels;  // kDecode: every row; kBoth: decode for chunks of one row, prefill for the others
  int splits = 1;            // decode: CTAs that share the keys of a row; 1: no partials, no merge
  bool small_merge = false;  // the merge for a device with little shared memory
  bool warpgroups = false;   // prefill by warpgroups; otherwise a few rows at a time
  Int16Decode decode = Int16Decode::kRows;
};

// Whether decode by the TMA can run; and how many clusters of a row's blocks the device holds at once, 0 if none.
bool int16_can_stream(const Launch& launch, const kernels::AttentionCall& call, int digits = 2);
int int16_clusters_at_once(const Launch& launch, const kernels::AttentionCall& call, int digits = 2);

// Whether prefill by warpgroups can run: the device has their instructions, and there is a kernel for the heads.
bool int16_has_warpgroups(const Launch& launch, const kernels::AttentionCall& call, int digits = 2);

Int16Schedule choose_int16_schedule(const Launch& launch, const kernels::AttentionCall& call, int digits = 2);
void attention_int16_with(const Launch& launch, const kernels::AttentionCall& call, const Int16Schedule& schedule,
                          int digits = 2);

void rotary_int16(const Launch& launch, const kernels::RotaryCall& call, int digits = 2);
void attention_int16(const Launch& launch, const kernels::AttentionCall& call, int digits = 2);
std::size_t attention_int16_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys);

}  // namespace reprofuse::cuda
