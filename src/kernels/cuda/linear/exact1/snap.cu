// Everything of exact-1 that is not a product: activations to digits, exponents of weight rows, sums of partials.
#include "base/math.hpp"
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

constexpr int kThreads = 512;
constexpr std::uint32_t kMagnitude = 0x7fffffffu;
constexpr std::uint32_t kInfinity = 0x7f800000u;

// The largest over the block, known to every thread. Not to be called again before the block has synchronised.
__device__ std::uint32_t block_max(std::uint32_t value) {
  __shared__ std::uint32_t warps[kThreads / kWarp];
  value = __reduce_max_sync(~0u, value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  return __reduce_max_sync(~0u, warps[threadIdx.x % (kThreads / kWarp)]);
}

template <int kLanes>
__device__ long long sum_of_lanes(long long value) {
#pragma unroll
  for (int step = kLanes / 2; step >= 1; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// The sum over the block, known to its first warp.
__device__ long long block_sum(long long value) {
  __shared__ long long warps[kThreads / kWarp];
  value = sum_of_lanes<kWarp>(value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x >= kWarp) return 0;
  return sum_of_lanes<kThreads / kWarp>(warps[threadIdx.x % (kThreads / kWarp)]);
}

// Terms k to k + 3 of a row, zero beyond its end.
__device__ float4 load_terms(const Params& p, int m, int k) {
  const float* x = p.x + m * p.x_stride + k;
  if (p.x_aligned && k + 4 <= p.k) return *reinterpret_cast<const float4*>(x);
  return make_float4(k < p.k ? x[0] : 0.0f, k + 1 < p.k ? x[1] : 0.0f, k + 2 < p.k ? x[2] : 0.0f,
                     k + 3 < p.k ? x[3] : 0.0f);
}

// kHeld: vectors of a row that a thread holds at a time.
template <int kHeld>
__device__ void load_held(const Params& p, int m, int first, float4 (&held)[kHeld]) {
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int k = first + (i * kThreads + threadIdx.x) * 4;
    held[i] = m < p.m && k < p.k ? load_terms(p, m, k) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

__device__ std::uint32_t max_magnitude(const float4& x) {
  return umax(umax(__float_as_uint(x.x) & kMagnitude, __float_as_uint(x.y) & kMagnitude),
              umax(__float_as_uint(x.z) & kMagnitude, __float_as_uint(x.w) & kMagnitude));
}

// A row whose largest magnitude is not finite has no exponent; any will do, since no result is made of it.
__device__ int exponent_of_row(std::uint32_t max) {
  return activation_exponent(max < kInfinity ? max : 0);
}

// The digits of four terms go to their places in three planes; returns the sum of the integers.
__device__ long long store_digits(const float4& x, float scale, std::uint8_t* to, int plane) {
  const std::int32_t snapped[4] = {snap_activation(x.x, scale), snap_activation(x.y, scale),
                                   snap_activation(x.z, scale), snap_activation(x.w, scale)};
  std::uint32_t balanced[4], digits[kDigits];
#pragma unroll
  for (int e = 0; e < 4; ++e) balanced[e] = (static_cast<std::uint32_t>(snapped[e]) + 0x808080u) ^ 0x808080u;
  gather_digits(balanced, digits[0], digits[1], digits[2]);
#pragma unroll
  for (int d = 0; d < kDigits; ++d) *reinterpret_cast<std::uint32_t*>(to + d * plane) = digits[d];
  return 0ll + snapped[0] + snapped[1] + snapped[2] + snapped[3];
}

// The row on its way to the L2, should it not be there: weights are about to take all of the memory's bandwidth.
__device__ void prefetch_row(const Params& p) {
#if __CUDA_ARCH__ >= 900
  const float* row = p.x + blockIdx.x * p.x_stride;
  for (int k = threadIdx.x * 32; blockIdx.x < p.m && k < p.k; k += kThreads * 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + k));
#endif
}

// One block per row, padding included.
template <int kHeld>
__global__ __launch_bounds__(kThreads) void snap_activations(const __grid_constant__ Params p) {
  let_next_kernel_start();
  prefetch_row(p);
  wait_for_previous_kernel();
  constexpr int kHeldTerms = kHeld * kThreads * 4;
  const int m = blockIdx.x, padded_k = p.k_tiles * kTileK;
  float4 held[kHeld];
  std::uint32_t max = 0;
  for (int first = 0; first < padded_k; first += kHeldTerms) {
    load_held(p, m, first, held);
#pragma unroll
    for (const float4& x : held) max = umax(max, max_magnitude(x));
  }
  max = block_max(max);
  const int exponent = exponent_of_row(max);
  const float scale = activation_scale(exponent);
  const int plane = p.tile_m * kTileK;
  std::uint8_t* row = p.digits + std::int64_t{m / p.tile_m} * p.k_tiles * kDigits * plane +
                      m % p.tile_m / 8 * (kTileK * 8) + m % 8 * 16;
  long long sum = 0;
  for (int first = 0; first < padded_k; first += kHeldTerms) {
    if (padded_k > kHeldTerms) load_held(p, m, first, held);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = first + (i * kThreads + threadIdx.x) * 4, place = place_of_term(k % kTileK);
      if (k >= padded_k) break;
      std::uint8_t* to = row + std::int64_t{k / kTileK} * kDigits * plane + place / 16 * 128 + place % 16;
      sum += store_digits(held[i], scale, to, plane);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0 && m < p.m) p.rows[m] = {sum << kWeightBits, exponent, max < kInfinity};
}

const void* const kSnapKernels[] = {reinterpret_cast<const void*>(&snap_activations<2>),
                                    reinterpret_cast<const void*>(&snap_activations<4>),
                                    reinterpret_cast<const void*>(&snap_activations<8>)};

__global__ __launch_bounds__(kThreads) void add_partials(const __grid_constant__ Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int column = blockIdx.x * kThreads + threadIdx.x, m = blockIdx.y;
  if (column >= p.columns) return;
  const std::int64_t stride = std::int64_t{p.m} * p.columns;
  const long long* partial = p.partials + std::int64_t{m} * p.columns + column;
  long long sum = 0;
#pragma unroll 4
  for (int split = 0; split < p.splits; ++split) sum += partial[split * stride];
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_column > column) --i;
  const int n = column - p.outputs[i].first_column;
  store_result(p, p.outputs[i], m, Column(p.outputs[i], n), p.rows[m], sum - p.rows[m].offset);
}

struct WeightRows {
  const void* w;
  std::int64_t stride;
  int n, k;
  DType dtype;
  std::uint8_t* exponents;
  int* first_bad;
};

__device__ std::uint32_t magnitude_bits(const WeightRows& p, std::int64_t i) {
  if (p.dtype == DType::kF32) return static_cast<const std::uint32_t*>(p.w)[i] & kMagnitude;
  const std::uint32_t half = static_cast<const std::uint16_t*>(p.w)[i];
  if (p.dtype == DType::kBF16) return half << 16 & kMagnitude;
  return __float_as_uint(__half2float(__ushort_as_half(static_cast<std::uint16_t>(half)))) & kMagnitude;
}

__global__ __launch_bounds__(kThreads) void weight_exponents(const WeightRows p) {
  const int n = blockIdx.x;
  std::uint32_t max = 0;
  for (int k = threadIdx.x; k < p.k; k += kThreads) max = umax(max, magnitude_bits(p, n * p.stride + k));
  max = block_max(max);
  if (threadIdx.x != 0) return;
  p.exponents[n] = static_cast<std::uint8_t>(weight_exponent(max < kInfinity ? max : 0) + 127);
  if (max >= kInfinity) atomicMin(p.first_bad, n);
}

}  // namespace

// The shortest code that holds a row, which is on the way of every layer.
cudaError_t launch_snap_activations(const Params& params, cudaStream_t stream) {
  const dim3 grid(params.row_tiles * params.tile_m);
  const int vectors = ceil_div(params.k, kThreads * 4);  // of a thread
  return launch_kernel(kSnapKernels[vectors <= 2 ? 0 : vectors <= 4 ? 1 : 2], {grid, kThreads}, params, stream);
}

cudaError_t launch_add_partials(const Params& params, cudaStream_t stream) {
  const dim3 grid(ceil_div(params.columns, kThreads), params.m);
  return launch_kernel(reinterpret_cast<const void*>(add_partials), {grid, kThreads}, params, stream);
}

cudaError_t launch_weight_exponents(const WeightView& weight, std::uint8_t* exponents, int* first_bad,
                                    cudaStream_t stream) {
  const auto n = static_cast<int>(weight.n);
  const WeightRows rows{weight.data, weight.stride, n, static_cast<int>(weight.k), weight.dtype, exponents, first_bad};
  weight_exponents<<<n, kThreads, 0, stream>>>(rows);
  return cudaGetLastError();
}

cudaError_t load_snap_kernels() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  for (const void* kernel : kSnapKernels)
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, add_partials);
  return status;
}

}  // namespace reprofuse::cuda::exact1
