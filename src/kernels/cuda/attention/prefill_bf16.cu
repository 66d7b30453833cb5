#include "kernels/cuda/attention/prefill.cuh"

namespace reprofuse::cuda::fma1::ops {

AttentionKernel prefill_kernel_bf16(int head_dim) {
  return prefill_kernel<Bf16Kv>(head_dim);
}

}  // namespace reprofuse::cuda::fma1::ops
