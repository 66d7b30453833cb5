#include "kernels/cuda/attention/prefill.cuh"

namespace reprofuse::cuda::fma1::ops {

AttentionKernel prefill_kernel_f32(int head_dim) {
  return prefill_kernel<F32Kv>(head_dim);
}

}  // namespace reprofuse::cuda::fma1::ops
