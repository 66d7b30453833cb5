#include "kernels/cuda/attention/int16/fold.cuh"
#include "kernels/cuda/attention/merge_sm80.cuh"

namespace reprofuse::cuda::int16::ops {

AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small) {
  return fma1::ops::merge_kernel_of<FoldInt16>(head_dim, key_blocks, small);
}

}  // namespace reprofuse::cuda::int16::ops
