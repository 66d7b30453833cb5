// Everything of exact-1 that is not a product: activations to digits, exponents of weight rows, sums of partials.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/integer/rows.cuh"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

template <int kLanes>
__device__ long long sum_of_lanes(long long value) {
#pragma unroll
  for (int step = kLanes / 2; step >= 1; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// The sum over the block, known to its first warp.
__device__ long long block_sum(long long value) {
  __shared__ long long warps[kRowThreads / kWarp];
  value = sum_of_lanes<kWarp>(value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x >= kWarp) return 0;
  return sum_of_lanes<kRowThreads / kWarp>(warps[threadIdx.x % (kRowThreads / kWarp)]);
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

// One block per row, padding included.
template <int kHeld>
__global__ __launch_bounds__(kRowThreads) void snap_activations(const __grid_constant__ Params p) {
  let_next_kernel_start();
  prefetch_row(p);
  wait_for_previous_kernel();
  constexpr int kHeldTerms = kHeld * kRowThreads * 4;
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
  std::uint8_t* tile = p.digits + std::int64_t{m / p.tile_m} * p.k_tiles * kDigits * plane;
  long long sum = 0;
  for (int first = 0; first < padded_k; first += kHeldTerms) {
    if (padded_k > kHeldTerms) load_held(p, m, first, held);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = held_term(first, i);
      if (k >= padded_k) break;
      std::uint8_t* to = tile + std::int64_t{k / kTileK} * kDigits * plane + place_in_digits(m % p.tile_m, k % kTileK);
      sum += store_digits(held[i], scale, to, plane);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0 && m < p.m) static_cast<Row*>(p.rows)[m] = {sum << kWeightBits, exponent, max < kInfinity};
}

const void* const kSnapKernels[] = {reinterpret_cast<const void*>(&snap_activations<2>),
                                    reinterpret_cast<const void*>(&snap_activations<4>),
                                    reinterpret_cast<const void*>(&snap_activations<8>)};

__global__ __launch_bounds__(kRowThreads) void add_partials(const __grid_constant__ Params p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  add_partials_of<Row>(p, [](const Row& row) { return row.offset; });
}

__global__ __launch_bounds__(kRowThreads) void weight_exponents(const WeightRows rows) {
  const std::uint32_t max = rows.largest();
  if (threadIdx.x != 0) return;
  rows.exponents[blockIdx.x] = static_cast<std::uint8_t>(weight_exponent(max < kInfinity ? max : 0) + 127);
  if (max >= kInfinity) atomicMin(rows.first_bad, static_cast<int>(blockIdx.x));
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
  weight_exponents<<<rows.n, kRowThreads, 0, stream>>>(rows);
  return cudaGetLastError();
}

cudaError_t load_row_kernels() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  for (const void* kernel : kSnapKernels)
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, add_partials);
  return status;
}

}  // namespace reprofuse::cuda::exact1
