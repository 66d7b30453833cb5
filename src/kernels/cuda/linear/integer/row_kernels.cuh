// The kernels of a contract that are no products: rows of activations and of weights to digits, exponents of weight
// rows, sums of partials. norm_rows and silu_rows are ops that leave their results as digits, for the layer that
// follows. `C` is a contract's Contract (exact1/digits.cuh).
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/elementwise/rms_norm.cuh"
#include "kernels/cuda/linear/integer/row_helpers.cuh"
#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/linear/integer/silu_rows_sm90.cuh"

namespace reprofuse::cuda::integer {

using ops::kNormThreads;

// Bits: digits of what reference::rms_norm gives. A CTA for each row, padding included. The row goes through shared
// memory: chains of the norm want its elements in another order than digits do.
template <typename Snap, int kHeld>
__global__ __launch_bounds__(kNormThreads) void norm_rows(const __grid_constant__ NormRowsParams p) {
  __shared__ __align__(16) float row[kHeld * kNormThreads];
  let_next_kernel_start();
  ops::HeldNorm<kHeld> held;
  held.load_weight(p.norm);
  wait_for_previous_kernel();
  const int m = blockIdx.x;
  if (m < p.to.m) {
    float* y = p.norm.y == nullptr ? nullptr : p.norm.y + m * p.norm.y_stride;
    held.run(p.norm, [&](int column, float value) {
      row[column] = value;
      if (y != nullptr) y[column] = value;
    });
    for (int k = p.to.k + threadIdx.x; k < p.to.k + 3 && k < kHeld * kNormThreads; k += kNormThreads) row[k] = 0.0f;
    __syncthreads();
  }
  Snap::template row<CtaRow, kNormThreads, kHeld / 4>(p.to, m,
                                                      [&](int k) { return *reinterpret_cast<const float4*>(&row[k]); });
}

// The shortest code that holds a row of k elements.
template <typename Snap>
RowKernel norm_rows_kernel(int k) {
  const auto kernel = [](void (*function)(NormRowsParams)) {
    return RowKernel{reinterpret_cast<const void*>(function), kNormThreads};
  };
  if (k <= 4 * kNormThreads) return kernel(&norm_rows<Snap, 4>);
  if (k <= 12 * kNormThreads) return kernel(&norm_rows<Snap, 12>);
  if (k <= 16 * kNormThreads) return kernel(&norm_rows<Snap, 16>);
  if (k <= 32 * kNormThreads) return kernel(&norm_rows<Snap, 32>);
  return {};
}

template <typename C, int kHeld>
__global__ __launch_bounds__(kRowThreads) void snap_activations(const __grid_constant__ Params p) {
  let_next_kernel_start();
  prefetch_row(p);
  wait_for_previous_kernel();
  const int m = blockIdx.x;
  C::Snap::template row<CtaRow, kRowThreads, kHeld>(DigitRows(p), m, [&](int k) { return load_terms(p, m, k); });
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
  if (max >= kInfinityBits) atomicMin(rows.first_bad, static_cast<int>(blockIdx.x));
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
