#include "kernels/cuda/attention/decode.cuh"

namespace reprofuse::cuda::fma1::ops {

const void* decode_kernel_f32(int head_dim, int set_heads) {
  return decode_kernel<F32Kv>(head_dim, set_heads);
}

}  // namespace reprofuse::cuda::fma1::ops
