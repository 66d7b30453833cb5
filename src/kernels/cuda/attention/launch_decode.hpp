// How decode is launched, whatever the contract. Params is AttentionParams, or what adds to it.
#pragma once

#include "kernels/cuda/attention/attention.hpp"
#include "kernels/cuda/runtime/check.hpp"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::ops {

// p.splits CTAs are a cluster, which folds its row: there is no merge.
template <typename Params>
void launch_clusters(const Launch& launch, const kernels::AttentionCall& call, const Params& p, std::int64_t slots,
                     const AttentionKernel& kernel) {
  const GridShape shape{.grid = decode_grid(call, p.splits, slots),
                        .threads = kernel.threads,
                        .shared_bytes = kernel.shared_bytes,
                        .cluster = p.splits};
  check(launch_kernel(kernel.function, shape, p, launch.stream), "attention_decode_cluster");
}

// Decode, and where p.splits CTAs share a row the merge of the partials, which take so many bytes of the workspace.
template <typename Params>
void launch_decode_and_merge(const Launch& launch, const kernels::AttentionCall& call, const Params& p,
                             std::int64_t slots, const AttentionKernel& decode, const AttentionKernel& merge,
                             std::size_t partial_bytes) {
  if (p.splits > 1)
    require(launch.workspace_bytes >= kWorkspaceHead + partial_bytes,
            "attention: a workspace of {} bytes, but {} are needed", launch.workspace_bytes,
            kWorkspaceHead + partial_bytes);
  const GridShape shape{
      .grid = decode_grid(call, p.splits, slots), .threads = decode.threads, .shared_bytes = decode.shared_bytes};
  check(launch_kernel(decode.function, shape, p, launch.stream), "attention_decode");
  if (p.splits == 1) return;
  const GridShape merge_shape{.grid = dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(slots)),
                              .threads = merge.threads,
                              .shared_bytes = merge.shared_bytes};
  check(launch_kernel(merge.function, merge_shape, static_cast<const AttentionParams&>(p), launch.stream),
        "attention_merge");
}

}  // namespace reprofuse::cuda::ops
