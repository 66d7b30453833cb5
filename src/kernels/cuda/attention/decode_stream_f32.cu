#include "kernels/cuda/attention/decode_stream.cuh"

namespace reprofuse::cuda::fma1::ops {

AttentionKernel stream_kernel_f32(int head_dim, int set_heads, int stages) {
  return kernel_of_shape<StreamShape, F32Kv>(head_dim, set_heads,
                                             [&]<typename S>() { return stream_kernel_of<S>(stages); });
}

}  // namespace reprofuse::cuda::fma1::ops
