// Everything of int16-1 that is not a product: activations to digits, units of weight rows, sums of partials.
#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/rows.cuh"
#include "kernels/cuda/runtime/launch.hpp"

namespace reprofuse::cuda::int16 {
namespace {

constexpr int kMaxBlocks = static_cast<int>(kMaxTerms / kTermBlock);
static_assert(kTermBlock % (kWarp * 4) == 0, "the vectors of a warp belong to one block of terms");

// The digits of four terms go to their places in two planes.
__device__ void store_digits(const float4& x, float inverse, std::uint8_t* to, int plane) {
  const std::uint32_t biased[4] = {snap_biased(x.x, inverse), snap_biased(x.y, inverse), snap_biased(x.z, inverse),
                                   snap_biased(x.w, inverse)};
  std::uint32_t high, low;
  gather_digits(biased, high, low);
  *reinterpret_cast<std::uint32_t*>(to) = high;
  *reinterpret_cast<std::uint32_t*>(to + plane) = low;
}

// The largest of all blocks' magnitudes, by every warp for itself.
__device__ std::uint32_t max_of_blocks(const std::uint32_t* blocks, int count) {
  std::uint32_t max = 0;
  for (int i = threadIdx.x % kWarp; i < count; i += kWarp) max = umax(max, blocks[i]);
  return __reduce_max_sync(~0u, max);
}

// One block per row, padding included.
template <int kHeld>
__global__ __launch_bounds__(kRowThreads) void snap_activations(const __grid_constant__ Params p) {
  __shared__ std::uint32_t largest[kMaxBlocks];  // magnitudes of each block of terms
  let_next_kernel_start();
  prefetch_row(p);
  if (threadIdx.x < kMaxBlocks) largest[threadIdx.x] = 0;
  __syncthreads();
  wait_for_previous_kernel();
  constexpr int kHeldTerms = kHeld * kRowThreads * 4;
  const int m = blockIdx.x, padded_k = p.k_tiles * kTileK;
  float4 held[kHeld];
  for (int first = 0; first < padded_k; first += kHeldTerms) {
    load_held(p, m, first, held);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = held_term(first, i);
      const std::uint32_t max = __reduce_max_sync(~0u, max_magnitude(held[i]));
      if (threadIdx.x % kWarp == 0 && k < padded_k) atomicMax(&largest[k / kTermBlock], max);
    }
  }
  __syncthreads();
  const int row_unit = unit_byte(max_of_blocks(largest, ceil_div(padded_k, kTermBlock)));
  const int plane = p.tile_m * kTileK, bytes = tile_bytes(p.tile_m);
  std::uint8_t* tile = p.digits + std::int64_t{m / p.tile_m} * p.k_tiles * bytes;
  for (int first = 0; first < padded_k; first += kHeldTerms) {
    if (padded_k > kHeldTerms) load_held(p, m, first, held);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = held_term(first, i);
      if (k >= padded_k) break;
      const int unit = block_unit(unit_byte(largest[k / kTermBlock]), row_unit);
      std::uint8_t* to = tile + std::int64_t{k / kTileK} * bytes;
      store_digits(held[i], inverse_unit(unit), to + place_in_digits(m % p.tile_m, k % kTileK), plane);
      if (k % kTileK == 0)
        reinterpret_cast<int*>(to + digit_bytes(p.tile_m))[m % p.tile_m] = 1 << (unit - row_unit + kUnitRange);
    }
  }
  if (threadIdx.x == 0 && m < p.m) static_cast<Row*>(p.rows)[m] = {row_unit};
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

}  // namespace reprofuse::cuda::int16
