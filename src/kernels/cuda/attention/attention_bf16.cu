// The attention kernels for keys and values in BF16.
#include "kernels/cuda/attention/decode_cluster_sm90.cuh"
#include "kernels/cuda/attention/decode_sm80.cuh"
#include "kernels/cuda/attention/decode_stream_sm90.cuh"
#include "kernels/cuda/attention/prefill_sm80.cuh"

namespace reprofuse::cuda::ops {

template const void* decode_kernel<Bf16Kv>(int head_dim, int set_heads);
template AttentionKernel stream_kernel<Bf16Kv>(int head_dim, int set_heads, int stages);
template AttentionKernel cluster_kernel<Bf16Kv>(int head_dim, int set_heads, int ctas);
template PrefillKernel prefill_kernel<Bf16Kv>(int head_dim);

}  // namespace reprofuse::cuda::ops
