// The ablated layer on tensor cores, in the pinned tile and with the contract's parts and merge: rule R1 alone is off.
#include <cuda_bf16.h>
#include <mma.h>

#include "study/ablation/kernels/linear_tile.cuh"

namespace reprofuse::cuda::ablation {
namespace {

namespace wmma = nvcuda::wmma;

constexpr Tile kTile = reprofuse::ablation::kPinnedTile;
constexpr int kFragment = 16;  // rows and columns of a fragment of results
constexpr int kWarps = kThreads / 32;
constexpr int kRowFragments = kTile.m / kFragment;
constexpr int kColumnFragments = kTile.n / kWarps / kFragment;  // each warp has its own columns
static_assert(kRowFragments * kFragment == kTile.m && kColumnFragments * kWarps * kFragment == kTile.n);

using Sums = wmma::fragment<wmma::accumulator, kFragment, kFragment, 8, float>;
using WideSums = wmma::fragment<wmma::accumulator, kFragment, kFragment, 16, float>;
using Tf32X = wmma::fragment<wmma::matrix_a, kFragment, kFragment, 8, wmma::precision::tf32, wmma::col_major>;
using Tf32W = wmma::fragment<wmma::matrix_b, kFragment, kFragment, 8, wmma::precision::tf32, wmma::row_major>;

template <class Fragment>
__device__ void round_to_tf32(Fragment& values) {
  for (int i = 0; i < values.num_elements; ++i) values.x[i] = wmma::__float_to_tf32(values.x[i]);
}

// values = high + low, but for what 22 bits do not hold.
template <class Fragment>
__device__ Fragment split_tf32(Fragment& values) {
  Fragment low;
  for (int i = 0; i < values.num_elements; ++i) {
    const float value = values.x[i], high = wmma::__float_to_tf32(value);
    values.x[i] = high;
    low.x[i] = wmma::__float_to_tf32(__fsub_rn(value, high));
  }
  return low;
}

// What differs between the formats: the element in shared memory, the terms of one product, and the product.
struct Tf32 {
  static constexpr Arithmetic kArithmetic = Arithmetic::kTf32;
  using Element = float;
  using Result = Sums;
  static constexpr int kTerms = 8;
  static constexpr int kPad = 4;  // elements after a row: fragments want 16 bytes
  __device__ static Element element(float value) { return value; }
  __device__ static void multiply_add(const Element* x, int x_stride, const Element* w, int w_stride, Result& sums) {
    Tf32X a;
    Tf32W b;
    wmma::load_matrix_sync(a, x, x_stride);
    wmma::load_matrix_sync(b, w, w_stride);
    round_to_tf32(a);
    round_to_tf32(b);
    wmma::mma_sync(sums, a, b, sums);
  }
};

struct Tf32x3 : Tf32 {
  static constexpr Arithmetic kArithmetic = Arithmetic::kTf32x3;
  __device__ static void multiply_add(const Element* x, int x_stride, const Element* w, int w_stride, Result& sums) {
    Tf32X a;
    Tf32W b;
    wmma::load_matrix_sync(a, x, x_stride);
    wmma::load_matrix_sync(b, w, w_stride);
    const Tf32X a_low = split_tf32(a);
    const Tf32W b_low = split_tf32(b);
    wmma::mma_sync(sums, a_low, b, sums);
    wmma::mma_sync(sums, a, b_low, sums);
    wmma::mma_sync(sums, a, b, sums);
  }
};

struct Bf16 {
  static constexpr Arithmetic kArithmetic = Arithmetic::kBf16;
  using Element = __nv_bfloat16;
  using Result = WideSums;
  static constexpr int kTerms = 16;
  static constexpr int kPad = 8;
  __device__ static Element element(float value) { return __float2bfloat16_rn(value); }
  __device__ static void multiply_add(const Element* x, int x_stride, const Element* w, int w_stride, Result& sums) {
    wmma::fragment<wmma::matrix_a, kFragment, kFragment, kTerms, Element, wmma::col_major> a;
    wmma::fragment<wmma::matrix_b, kFragment, kFragment, kTerms, Element, wmma::row_major> b;
    wmma::load_matrix_sync(a, x, x_stride);
    wmma::load_matrix_sync(b, w, w_stride);
    wmma::mma_sync(sums, a, b, sums);
  }
};

template <class Format>
__global__ void __launch_bounds__(kThreads) linear_tensor_cores(const __grid_constant__ Params p) {
  using Element = typename Format::Element;
  constexpr int kXStride = kTile.m + Format::kPad, kWStride = kTile.n + Format::kPad, kYStride = kTile.n + 4;
  constexpr int kAlignment = 32;  // of every fragment in memory
  __shared__ alignas(kAlignment) Element x[kTile.k * kXStride];
  __shared__ alignas(kAlignment) Element w[kTile.k * kWStride];
  __shared__ alignas(kAlignment) float y[kTile.m * kYStride];
  const int row0 = blockIdx.x * kTile.m, column0 = blockIdx.y * kTile.n;
  const int warp_column = threadIdx.x / 32 * (kTile.n / kWarps);
  typename Format::Result sums[kRowFragments][kColumnFragments];
  for (auto& row : sums)
    for (auto& fragment : row) wmma::fill_fragment(fragment, 0.0F);
  for (int k0 = part_begin(p), k_end = part_end(p); k0 < k_end; k0 += kTile.k) {
    load_x<kTile.m, kTile.k>(
        p, row0, k0, k_end, [&](int row, int term, float value) { x[term * kXStride + row] = Format::element(value); });
    load_w<kTile.n, kTile.k>(p, column0, k0, k_end, [&](int column, int term, float value) {
      w[term * kWStride + column] = Format::element(value);
    });
    __syncthreads();
    for (int term = 0; term < kTile.k; term += Format::kTerms)
#pragma unroll
      for (int i = 0; i < kRowFragments; ++i)
#pragma unroll
        for (int j = 0; j < kColumnFragments; ++j)
          Format::multiply_add(x + term * kXStride + i * kFragment, kXStride,
                               w + term * kWStride + warp_column + j * kFragment, kWStride, sums[i][j]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRowFragments; ++i)
#pragma unroll
    for (int j = 0; j < kColumnFragments; ++j)
      wmma::store_matrix_sync(y + i * kFragment * kYStride + warp_column + j * kFragment, sums[i][j], kYStride,
                              wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kTile.m * kTile.n; i += kThreads)
    leave_sum(p, row0 + i / kTile.n, column0 + i % kTile.n, y[i / kTile.n * kYStride + i % kTile.n]);
}

template <class Format>
Kernel kernel() {
  return {Format::kArithmetic, kTile, reinterpret_cast<const void*>(&linear_tensor_cores<Format>)};
}

}  // namespace

std::vector<Kernel> tensor_core_kernels() {
  return {kernel<Tf32>(), kernel<Tf32x3>(), kernel<Bf16>()};
}

}  // namespace reprofuse::cuda::ablation
