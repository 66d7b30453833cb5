// One kernel, a template over what happens to a value: reads, converts, writes. Bound by memory alone.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/vendor/cast.hpp"

namespace reprofuse::cuda::cast {
namespace {

constexpr int kThreads = 256;
constexpr int kCtasPerSm = 8;
constexpr int kUnroll = 4;  // loads in flight per thread
constexpr int kVector = 4;  // values per access where alignment allows: 16 bytes of binary32

__device__ inline std::uint16_t bf16_bits(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
__device__ inline float bf16_value(std::uint16_t bits) {
  return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

struct WidenBf16 {
  using From = std::uint16_t;
  using To = float;
  __device__ static float apply(From bits, const float*) { return bf16_value(bits); }
};

struct WidenF16 {
  using From = std::uint16_t;
  using To = float;
  __device__ static float apply(From bits, const float*) { return __half2float(__ushort_as_half(bits)); }
};

struct RoundBf16 {
  using From = float;
  using To = std::uint16_t;
  __device__ static To apply(float value, const float*) { return bf16_bits(value); }
};

struct WidenBf16Result {
  using From = std::uint16_t;
  using To = float;
  __device__ static float apply(From bits, const float* bias) {
    const float value = bf16_value(bits);
    return bias == nullptr ? value : bf16_value(bf16_bits(value + *bias));
  }
};

struct AddBias {
  using From = float;
  using To = float;
  __device__ static float apply(float value, const float* bias) { return value + *bias; }
};

template <typename T, int kValues>
struct alignas(sizeof(T) * kValues) Vector {
  T value[kValues];
};

// Threads walk over vectors of kValues neighbours; kValues divides cols, so that none crosses the end of a row.
template <typename Cast, int kValues>
__global__ void __launch_bounds__(kThreads) cast_rows(const CastRows cast) {
  using From = Vector<typename Cast::From, kValues>;
  using To = Vector<typename Cast::To, kValues>;
  const std::int64_t per_row = cast.cols / kValues;
  const std::int64_t count = cast.rows * per_row;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; begin < count;
       begin += kUnroll * step) {
    From loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = begin + u * step;
      if (i >= count) break;
      const std::int64_t row = cast.rows == 1 ? 0 : i / per_row;
      const auto* from = static_cast<const typename Cast::From*>(cast.from) + row * cast.from_stride;
      loaded[u] = reinterpret_cast<const From*>(from)[i - row * per_row];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = begin + u * step;
      if (i >= count) break;
      const std::int64_t row = cast.rows == 1 ? 0 : i / per_row;
      const std::int64_t column = (i - row * per_row) * kValues;
      To result;
#pragma unroll
      for (int v = 0; v < kValues; ++v)
        result.value[v] = Cast::apply(loaded[u].value[v], cast.bias == nullptr ? nullptr : cast.bias + column + v);
      auto* to = static_cast<typename Cast::To*>(cast.to) + row * cast.to_stride + column;
      *reinterpret_cast<To*>(to) = result;
    }
  }
}

bool is_aligned(const void* data, std::int64_t stride, std::size_t element) {
  const auto bytes = element * kVector;
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0 && static_cast<std::size_t>(stride) * element % bytes == 0;
}

// Rows that touch are one long row, unless each needs the same bias.
CastRows as_few_rows(CastRows cast) {
  if (cast.bias == nullptr && cast.from_stride == cast.cols && cast.to_stride == cast.cols) {
    cast.cols *= cast.rows;
    cast.rows = 1;
  }
  if (cast.rows == 1) cast.from_stride = cast.to_stride = 0;
  return cast;
}

template <typename Cast>
cudaError_t launch(const CastRows& given, int sm_count, cudaStream_t stream) {
  CastRows cast = as_few_rows(given);
  const bool vectors = cast.cols % kVector == 0 &&
                       is_aligned(cast.from, cast.from_stride, sizeof(typename Cast::From)) &&
                       is_aligned(cast.to, cast.to_stride, sizeof(typename Cast::To));
  const std::int64_t steps = cast.rows * cast.cols / (vectors ? kVector : 1);
  const std::int64_t blocks = (steps + kThreads - 1) / kThreads;
  const std::int64_t max_ctas = static_cast<std::int64_t>(sm_count) * kCtasPerSm;
  const auto* kernel = vectors ? reinterpret_cast<const void*>(cast_rows<Cast, kVector>)
                               : reinterpret_cast<const void*>(cast_rows<Cast, 1>);
  void* arguments[] = {&cast};
  return cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks < max_ctas ? blocks : max_ctas)), dim3(kThreads),
                          arguments, 0, stream);
}

}  // namespace
}  // namespace reprofuse::cuda::cast

namespace reprofuse::cuda {

cudaError_t launch_widen_bf16(const CastRows& cast, int sm_count, cudaStream_t stream) {
  return cast::launch<cast::WidenBf16>(cast, sm_count, stream);
}
cudaError_t launch_widen_f16(const CastRows& cast, int sm_count, cudaStream_t stream) {
  return cast::launch<cast::WidenF16>(cast, sm_count, stream);
}
cudaError_t launch_round_bf16(const CastRows& cast, int sm_count, cudaStream_t stream) {
  return cast::launch<cast::RoundBf16>(cast, sm_count, stream);
}
cudaError_t launch_widen_bf16_result(const CastRows& cast, int sm_count, cudaStream_t stream) {
  return cast::launch<cast::WidenBf16Result>(cast, sm_count, stream);
}
cudaError_t launch_add_bias(const CastRows& cast, int sm_count, cudaStream_t stream) {
  return cast::launch<cast::AddBias>(cast, sm_count, stream);
}

}  // namespace reprofuse::cuda
