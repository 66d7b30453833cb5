#include "kernels/cuda/attention/decode.cuh"

namespace reprofuse::cuda::fma1::ops {

const void* decode_kernel_bf16(int head_dim, int set_heads) {
  return decode_kernel<Bf16Kv>(head_dim, set_heads);
}

}  // namespace reprofuse::cuda::fma1::ops
