#include "kernels/vendor/cast.hpp"

#include "kernels/cuda/runtime/device.hpp"
#include "kernels/vendor/cast_kernels.hpp"

namespace reprofuse::cuda {
namespace {

using Launch = cudaError_t(const CastRows&, int sm_count, cudaStream_t);

void enqueue(int ordinal, Launch* launch, const CastRows& cast, void* stream, const char* what) {
  const DeviceScope device(ordinal);
  const int sm_count = device_attribute(ordinal, cudaDevAttrMultiProcessorCount);
  check(launch(cast, sm_count, static_cast<cudaStream_t>(stream)), what);
}

}  // namespace

void enqueue_widen(int ordinal, const WeightView& weight, float* to, void* stream) {
  invariant(weight.dtype != DType::kF32, "a binary32 weight needs no widening");
  const CastRows cast{.from = weight.data,
                      .from_stride = weight.stride,
                      .to = to,
                      .to_stride = weight.k,
                      .rows = weight.n,
                      .cols = weight.k,
                      .bias = nullptr};
  enqueue(ordinal, weight.dtype == DType::kBF16 ? launch_widen_bf16 : launch_widen_f16, cast, stream, "widen");
}

void enqueue_round_bf16(int ordinal, ConstMatrix from, void* to, void* stream) {
  const CastRows cast{.from = from.data,
                      .from_stride = from.stride,
                      .to = to,
                      .to_stride = from.cols,
                      .rows = from.rows,
                      .cols = from.cols,
                      .bias = nullptr};
  enqueue(ordinal, launch_round_bf16, cast, stream, "round_bf16");
}

void enqueue_widen_bf16_result(int ordinal, const void* from, const float* bias, Matrix y, void* stream) {
  const CastRows cast{.from = from,
                      .from_stride = y.cols,
                      .to = y.data,
                      .to_stride = y.stride,
                      .rows = y.rows,
                      .cols = y.cols,
                      .bias = bias};
  enqueue(ordinal, launch_widen_bf16_result, cast, stream, "widen_bf16_result");
}

void enqueue_add_bias(int ordinal, const float* bias, Matrix y, void* stream) {
  const CastRows cast{.from = y.data,
                      .from_stride = y.stride,
                      .to = y.data,
                      .to_stride = y.stride,
                      .rows = y.rows,
                      .cols = y.cols,
                      .bias = bias};
  enqueue(ordinal, launch_add_bias, cast, stream, "add_bias");
}

}  // namespace reprofuse::cuda
