#include "kernels/cuda/attention_decode_stream.cuh"

namespace reprofuse::cuda::fma1::ops {

AttentionKernel stream_kernel_f32(int head_dim, int set_heads, int stages) {
  return stream_kernel<F32Kv>(head_dim, set_heads, stages);
}

}  // namespace reprofuse::cuda::fma1::ops
