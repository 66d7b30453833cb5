#include "kernels/cuda/attention/merge_sm80.cuh"

namespace reprofuse::cuda::fma1::ops {

AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small) {
  return merge_kernel_of<FoldFma1>(head_dim, key_blocks, small);
}

}  // namespace reprofuse::cuda::fma1::ops
