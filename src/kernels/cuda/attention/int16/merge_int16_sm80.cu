#include "kernels/cuda/attention/int16/fold.cuh"
#include "kernels/cuda/attention/merge_sm80.cuh"

namespace reprofuse::cuda::int16::ops {

template <typename N>
AttentionKernel merge_kernel(int head_dim, int key_blocks, bool small) {
  return fma1::ops::merge_kernel_of<FoldDigits<N>>(head_dim, key_blocks, small);
}

template AttentionKernel merge_kernel<TwoDigits>(int, int, bool);
template AttentionKernel merge_kernel<ThreeDigits>(int, int, bool);

}  // namespace reprofuse::cuda::int16::ops
