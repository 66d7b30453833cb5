#include "kernels/cuda/linear/exact1/row_ops.hpp"
#include "kernels/cuda/linear/exact1/snap_row.cuh"
#include "kernels/cuda/linear/integer/row_ops.cuh"

namespace reprofuse::cuda::exact1 {

RowKernel norm_rows_kernel(int k) {
  return integer::norm_rows_kernel<Snap>(k);
}

RowKernel silu_rows_kernel(int k) {
  return integer::silu_rows_kernel<Snap>(k);
}

}  // namespace reprofuse::cuda::exact1
