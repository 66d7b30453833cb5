// Attention by contracts int16-1 and exact-2 on CUDA: the kernels, how they split their work, and an entry point for
// tests and benches that runs a given schedule. No schedule changes a bit. `digits`: two by int16-1, three by exact-2.
#pragma once

#include <cstddef>

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/attention/integer/params.hpp"

namespace reprofuse::cuda::integer_attention {

struct Schedule {
  AttentionPhases phases;    // kDecode: every row; kBoth: decode for chunks of one row, prefill for the others
  int splits = 1;            // decode: CTAs that share the keys of a row; 1: no partials, no merge
  bool small_merge = false;  // the merge for a device with little shared memory
  bool wgmma = false;        // prefill by wgmma; otherwise a few rows at a time
  DecodeBy decode = DecodeBy::kDirect;
};

// Whether decode by the TMA can run; and how many clusters of a row's blocks the device holds at once, 0 if none.
bool can_stream(const DeviceSite& site, const kernels::AttentionCall& call, int digits);
int clusters_at_once(const DeviceSite& site, const kernels::AttentionCall& call, int digits);

// Whether prefill by wgmma can run: the device has the instructions, and there is a kernel for the heads.
bool has_wgmma(const DeviceSite& site, const kernels::AttentionCall& call, int digits);

Schedule choose_schedule(const DeviceSite& site, const kernels::AttentionCall& call, int digits);
// Where `rotary` is given, it has not run yet, and decode does it: see can_rotate().
void attention_with(const DeviceSite& site, const kernels::AttentionCall& call, const Schedule& schedule, int digits,
                    const kernels::RotaryCall* rotary = nullptr);
bool can_rotate(const kernels::AttentionCall& call, const Schedule& schedule);

void rotary(const DeviceSite& site, const kernels::RotaryCall& call, int digits);
void attention(const DeviceSite& site, const kernels::AttentionCall& call, int digits);
// Both in one launch, and where there are partials a merge. False: they must run one after the other, and nothing has
// run.
bool rotary_and_attention(const DeviceSite& site, const kernels::RotaryCall& rotary, const kernels::AttentionCall& call,
                          int digits);
std::size_t workspace_bytes(int heads, int head_dim, int chunk_count, int rows, int max_keys);
// In a copy of the page on the host.
std::int32_t integer_in_page(const void* page, int digits, kernels::Cached which, const kernels::ElementInPage& at);

}  // namespace reprofuse::cuda::integer_attention
