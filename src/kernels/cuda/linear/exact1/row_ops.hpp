// The ops that leave digits of exact-1: what integer::Scheme asks for.
#pragma once

#include "kernels/cuda/linear/integer/digit_rows.hpp"

namespace reprofuse::cuda::exact1 {

integer::RowKernel norm_rows_kernel(int k);
integer::RowKernel silu_rows_kernel(int k);

}  // namespace reprofuse::cuda::exact1
