// Everything of exact-1 that is not a product: activations and weights to digits, exponents of weight rows, sums of
// partials.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/exact1/params.hpp"
#include "kernels/cuda/linear/integer/row_ops.cuh"
#include "kernels/reference/reference.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

template <int kHeld>
__global__ __launch_bounds__(kRowThreads) void snap_activations(const __grid_constant__ Params p) {
  let_next_kernel_start();
  prefetch_row(p);
  wait_for_previous_kernel();
  const int m = blockIdx.x;
  Snap::row<WholeRow, kRowThreads, kHeld>(DigitRows(p), m, [&](int k) { return load_terms(p, m, k); });
}

// The shortest code that holds a row, which is on the way of every layer.
RowKernel snap_rows(int k) {
  const auto kernel = [](void (*function)(Params)) {
    return RowKernel{reinterpret_cast<const void*>(function), kRowThreads};
  };
  if (k <= 2 * 4 * kRowThreads) return kernel(&snap_activations<2>);
  if (k <= 4 * 4 * kRowThreads) return kernel(&snap_activations<4>);
  return kernel(&snap_activations<8>);
}

__global__ __launch_bounds__(kRowThreads) void add_partials(const __grid_constant__ Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  add_partials_of<Row>(p, [](const Row& row) { return row.offset; });
}

__global__ __launch_bounds__(kRowThreads) void weight_exponents(const WeightRows rows) {
  const std::uint32_t max = max_magnitude(rows);
  if (threadIdx.x != 0) return;
  rows.exponents[blockIdx.x] = static_cast<std::uint8_t>(weight_exponent(max < kInfinity ? max : 0) + 127);
  if (max >= kInfinity) atomicMin(rows.first_bad, static_cast<int>(blockIdx.x));
}

template <typename W>
__global__ __launch_bounds__(kPrepareThreads) void prepare_weights(const __grid_constant__ Params p) {
  prepare_k_tile<W, kDigits>(
      p, [](int exponent) { return scale_of_weights(exponent); },
      [](const float4& terms, float scale, std::uint32_t(&digits)[kDigits]) {
        gather_digits({snap_weight(terms.x, scale), snap_weight(terms.y, scale), snap_weight(terms.z, scale),
                       snap_weight(terms.w, scale)},
                      digits[0], digits[1], digits[2]);
      });
}

const void* prepare_kernel(DType dtype) {
  if (dtype == DType::kBF16) return reinterpret_cast<const void*>(&prepare_weights<Bf16Weight>);
  if (dtype == DType::kF16) return reinterpret_cast<const void*>(&prepare_weights<F16Weight>);
  return reinterpret_cast<const void*>(&prepare_weights<F32Weight>);
}

}  // namespace

const Scheme& scheme() {
  static const Scheme kScheme{.name = reference::kLinearExact1.name,
                              .max_terms = kMaxTerms,
                              .row_bytes = sizeof(Row),
                              .digits = kDigits,
                              .tile_bytes = tile_bytes,
                              .keeps_digits = false,
                              .mma_kernels = mma_kernels,
                              .wgmma_kernels = wgmma_kernels,
                              .snap_rows = snap_rows,
                              .norm_rows = norm_rows_kernel<Snap>,
                              .silu_rows = silu_rows_kernel<Snap>,
                              .weight_exponents = reinterpret_cast<const void*>(&weight_exponents),
                              .prepare_weights = prepare_kernel,
                              .add_partials = reinterpret_cast<const void*>(&add_partials)};
  return kScheme;
}

}  // namespace reprofuse::cuda::exact1
