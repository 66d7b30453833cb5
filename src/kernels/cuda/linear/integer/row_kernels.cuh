// The kernels of a contract that are no products: rows of activations and of weights to digits, exponents of weight
// rows, sums of partials. `C` is the contract, as its digits.cuh describes it:
//   kDigits, Row, Snap; offset(row): what the bias that makes weights unsigned adds to a row's sums,
//   weight_byte(max): the exponent of a weight row by its largest magnitude, scale(byte): what its weights count in,
//   split(terms, scale, digits): a word of each digit of four weights.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/integer/row_ops.cuh"
#include "kernels/cuda/linear/integer/scheme.hpp"

namespace reprofuse::cuda::integer {

template <typename C, int kHeld>
__global__ __launch_bounds__(kRowThreads) void snap_activations(const __grid_constant__ Params p) {
  let_next_kernel_start();
  prefetch_row(p);
  wait_for_previous_kernel();
  const int m = blockIdx.x;
  C::Snap::template row<WholeRow, kRowThreads, kHeld>(DigitRows(p), m, [&](int k) { return load_terms(p, m, k); });
}

// The shortest code that holds a row, which is on the way of every layer.
template <typename C>
RowKernel snap_kernel(int k) {
  const auto kernel = [](void (*function)(Params)) {
    return RowKernel{reinterpret_cast<const void*>(function), kRowThreads};
  };
  if (k <= 2 * 4 * kRowThreads) return kernel(&snap_activations<C, 2>);
  if (k <= 4 * 4 * kRowThreads) return kernel(&snap_activations<C, 4>);
  return kernel(&snap_activations<C, 8>);
}

template <typename C>
__global__ __launch_bounds__(kRowThreads) void add_partials(const __grid_constant__ Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  add_partials_of<typename C::Row>(p, [](const typename C::Row& row) { return C::offset(row); });
}

template <typename C>
__global__ __launch_bounds__(kRowThreads) void weight_exponents(const WeightRows rows) {
  const std::uint32_t max = max_magnitude(rows);
  if (threadIdx.x != 0) return;
  rows.exponents[blockIdx.x] = static_cast<std::uint8_t>(C::weight_byte(max));
  if (max >= kInfinity) atomicMin(rows.first_bad, static_cast<int>(blockIdx.x));
}

template <typename C, typename W>
__global__ __launch_bounds__(kPrepareThreads) void prepare_weights(const __grid_constant__ Params p) {
  prepare_k_tile<W, C::kDigits>(
      p, [](int byte) { return C::scale(byte); },
      [](const float4& terms, float scale, std::uint32_t(&digits)[C::kDigits]) { C::split(terms, scale, digits); });
}

template <typename C>
const void* prepare_kernel(DType dtype) {
  if (dtype == DType::kBF16) return reinterpret_cast<const void*>(&prepare_weights<C, Bf16Weight>);
  if (dtype == DType::kF16) return reinterpret_cast<const void*>(&prepare_weights<C, F16Weight>);
  return reinterpret_cast<const void*>(&prepare_weights<C, F32Weight>);
}

template <typename C>
RowKernels row_kernels() {
  return {.snap = snap_kernel<C>,
          .norm = norm_rows_kernel<typename C::Snap>,
          .silu = silu_rows_kernel<typename C::Snap>,
          .weight_exponents = reinterpret_cast<const void*>(&weight_exponents<C>),
          .prepare_weights = prepare_kernel<C>,
          .add_partials = reinterpret_cast<const void*>(&add_partials<C>)};
}

}  // namespace reprofuse::cuda::integer
