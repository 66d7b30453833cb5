// Attention by contracts int16-1 and exact-2 on CUDA: the kernels, how they split their work, and an entry point for
// tests and ablations that runs a given schedule. No schedule changes a bit. `digits`: two by int16-1, three by
// exact-2.
#pragma once

#include <cstddef>

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/integer/params.hpp"

namespace reprofuse::cuda {

enum class IntegerDecode {
  kRows,     // threads read digits from the pages themselves: on any device, for any heads
  kStream,   // the TMA brings them
  kCluster,  // likewise, to a cluster whose CTAs have a key block each and fold the row: no splits
};

struct IntegerSchedule {
  AttentionKernels kernels;  // kDecode: every row; kBoth: decode for chunks of one row, prefill for the others
  int splits = 1;            // decode: CTAs that share the keys of a row; 1: no partials, no merge
  bool small_merge = false;  // the merge for a device with little shared memory
  bool warpgroups = false;   // prefill by warpgroups; otherwise a few rows at a time
  IntegerDecode decode = IntegerDecode::kRows;
};

// Whether decode by the TMA can run; and how many clusters of a row's blocks the device holds at once, 0 if none.
bool integer_can_stream(const Launch& launch, const kernels::AttentionCall& call, int digits);
int integer_clusters_at_once(const Launch& launch, const kernels::AttentionCall& call, int digits);

// Whether prefill by warpgroups can run: the device has their instructions, and there is a kernel for the heads.
bool integer_has_warpgroups(const Launch& launch, const kernels::AttentionCall& call, int digits);

IntegerSchedule choose_integer_schedule(const Launch& launch, const kernels::AttentionCall& call, int digits);
// Where `rotary` is given, it has not run yet, and decode does it: see can_rotate_integer().
void attention_integer_with(const Launch& launch, const kernels::AttentionCall& call, const IntegerSchedule& schedule,
                            int digits, const kernels::RotaryCall* rotary = nullptr);
bool can_rotate_integer(const kernels::AttentionCall& call, const IntegerSchedule& schedule);

void rotary_integer(const Launch& launch, const kernels::RotaryCall& call, int digits);
void attention_integer(const Launch& launch, const kernels::AttentionCall& call, int digits);
// Both in one launch, and where there are partials a merge. False: they take their turns, and nothing has run.
bool rotary_and_attention_integer(const Launch& launch, const kernels::RotaryCall& rotary,
                                  const kernels::AttentionCall& call, int digits);
std::size_t attention_integer_workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys);

}  // namespace reprofuse::cuda
