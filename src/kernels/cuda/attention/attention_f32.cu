// The attention kernels for keys and values in FP32, and the merge, whose partials are FP32 in any case.
#include "kernels/cuda/attention/decode_cluster_sm90.cuh"
#include "kernels/cuda/attention/decode_sm80.cuh"
#include "kernels/cuda/attention/decode_stream_sm90.cuh"
#include "kernels/cuda/attention/merge_sm80.cuh"
#include "kernels/cuda/attention/prefill_sm80.cuh"

namespace reprofuse::cuda::ops {

template const void* decode_kernel<F32Kv>(int head_dim, int set_heads);
template AttentionKernel stream_kernel<F32Kv>(int head_dim, int set_heads, int stages);
template AttentionKernel cluster_kernel<F32Kv>(int head_dim, int set_heads, int ctas);
template PrefillKernel prefill_kernel<F32Kv>(int head_dim);

AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small) {
  return merge_kernel_of<FoldFma1>(head_dim, key_blocks, small);
}

}  // namespace reprofuse::cuda::ops
