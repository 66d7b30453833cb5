#include "kernels/cuda/attention/decode_cluster.cuh"

namespace reprofuse::cuda::fma1::ops {

AttentionKernel cluster_kernel_f32(int head_dim, int set_heads, int blocks) {
  return kernel_of_shape<ClusterShape, F32Kv>(head_dim, set_heads,
                                              [&]<typename S>() { return cluster_kernel_of<S>(blocks); });
}

}  // namespace reprofuse::cuda::fma1::ops
