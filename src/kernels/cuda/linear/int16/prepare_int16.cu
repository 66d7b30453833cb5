// Weights of int16-1 as digits: those that a layer keeps, or that many rows of x will meet.
#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/prepare.cuh"

namespace reprofuse::cuda::int16 {
namespace {

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

}  // namespace

const void* prepare_kernel(DType dtype) {
  if (dtype == DType::kBF16) return reinterpret_cast<const void*>(&prepare_weights<Bf16Weight>);
  if (dtype == DType::kF16) return reinterpret_cast<const void*>(&prepare_weights<F16Weight>);
  return reinterpret_cast<const void*>(&prepare_weights<F32Weight>);
}

cudaError_t launch_prepare_weights(const Params& params, DType dtype, cudaStream_t stream) {
  return launch_prepare(prepare_kernel(dtype), params, stream);
}

}  // namespace reprofuse::cuda::int16
