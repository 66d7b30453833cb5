// Everything of int16-1 that is not a product: activations and weights to digits, units of weight rows,
// sums of partials.
#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/int16/params.hpp"
#include "kernels/cuda/linear/integer/prepare.cuh"
#include "kernels/cuda/linear/integer/row_ops.cuh"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::int16 {
namespace {

template <int kHeld>
__global__ __launch_bounds__(kRowThreads) void snap_activations(const __grid_constant__ Params p) {
  let_next_kernel_start();
  prefetch_row(p);
  wait_for_previous_kernel();
  const int m = blockIdx.x;
  Snap::row<WholeRow, kRowThreads, kHeld>(DigitRows(p), m, [&](int k) { return load_terms(p, m, k); });
}

const void* const kSnapKernels[] = {reinterpret_cast<const void*>(&snap_activations<2>),
                                    reinterpret_cast<const void*>(&snap_activations<4>),
                                    reinterpret_cast<const void*>(&snap_activations<8>)};

__global__ __launch_bounds__(kRowThreads) void add_partials(const __grid_constant__ Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  add_partials_of<Row>(p, [](const Row&) { return 0; });
}

__global__ __launch_bounds__(kRowThreads) void weight_units(const WeightRows rows) {
  const std::uint32_t max = rows.largest();
  if (threadIdx.x != 0) return;
  rows.exponents[blockIdx.x] = static_cast<std::uint8_t>(unit_byte(max));
  if (max >= kInfinity) atomicMin(rows.first_bad, static_cast<int>(blockIdx.x));
}

template <typename W>
__global__ __launch_bounds__(kPrepareThreads) void prepare_weights(const __grid_constant__ Params p) {
  prepare_k_tile<W, kDigits>(
      p, [](int unit) { return inverse_unit(unit); },
      [](const float4& terms, float inverse, std::uint32_t(&digits)[kDigits]) {
        gather_digits({snap_biased(terms.x, inverse), snap_biased(terms.y, inverse), snap_biased(terms.z, inverse),
                       snap_biased(terms.w, inverse)},
                      digits[0], digits[1]);
      });
}

const void* prepare_kernel(DType dtype) {
  if (dtype == DType::kBF16) return reinterpret_cast<const void*>(&prepare_weights<Bf16Weight>);
  if (dtype == DType::kF16) return reinterpret_cast<const void*>(&prepare_weights<F16Weight>);
  return reinterpret_cast<const void*>(&prepare_weights<F32Weight>);
}

}  // namespace

// The shortest code that holds a row, which is on the way of every layer.
cudaError_t launch_snap_activations(const Params& params, cudaStream_t stream) {
  const dim3 grid(params.row_tiles * params.tile_m);
  const int vectors = ceil_div(params.k, kRowThreads * 4);  // of a thread
  return launch_kernel(kSnapKernels[vectors <= 2 ? 0 : vectors <= 4 ? 1 : 2], {grid, kRowThreads}, params, stream);
}

cudaError_t launch_add_partials(const Params& params, cudaStream_t stream) {
  return launch_kernel(reinterpret_cast<const void*>(add_partials), {grid_of_partials(params), kRowThreads}, params,
                       stream);
}

cudaError_t launch_weight_exponents(const WeightView& weight, std::uint8_t* exponents, int* first_bad,
                                    cudaStream_t stream) {
  const WeightRows rows(weight, exponents, first_bad);
  weight_units<<<rows.n, kRowThreads, 0, stream>>>(rows);
  return cudaGetLastError();
}

cudaError_t load_row_kernels() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  for (const void* kernel : kSnapKernels)
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, add_partials);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, prepare_kernel(dtype));
  return status;
}

RowKernel norm_rows_kernel(int k) {
  return integer::norm_rows_kernel<Snap>(k);
}

RowKernel silu_rows_kernel(int k) {
  return integer::silu_rows_kernel<Snap>(k);
}

cudaError_t launch_prepare_weights(const Params& params, DType dtype, cudaStream_t stream) {
  return launch_prepare(prepare_kernel(dtype), params, stream);
}

}  // namespace reprofuse::cuda::int16
