// The kernels of the ablated layer: in IEEE arithmetic, for every tile that the tuner tries; on tensor cores, in the
// pinned tile and with the contract's splits and merge, so that rule R1 alone is off; and the fold of splits, of both.
#include <cuda_bf16.h>
#include <mma.h>

#include "numerics/fma1.hpp"
#include "study/ablation/kernels/linear_params.hpp"

namespace reprofuse::cuda::ablation {
namespace {

namespace wmma = nvcuda::wmma;

constexpr Tile kTile = reprofuse::ablation::kPinnedTile;

// How a kernel fills its tiles and leaves its sums. First, the CTA's split of K.
__device__ inline int split_begin(const Params& p) {
  return blockIdx.z * p.split_length;
}
__device__ inline int split_end(const Params& p) {
  return min(p.k, split_begin(p) + p.split_length);
}

// Calls store(row, term, value) for kRows x kTerms values of x from (row0, k0). Beyond the edges the values are those
// of the contract's padding, which changes no sum. k is a multiple of 4, so four terms are inside or outside together.
template <int kRows, int kTerms, typename Store>
__device__ void load_x(const Params& p, int row0, int k0, int k_end, const Store& store) {
  constexpr int kVectors = kTerms / 4;
  for (int i = threadIdx.x; i < kRows * kVectors; i += kThreads) {
    const int row = i / kVectors, term = i % kVectors * 4;
    constexpr float kPad = reprofuse::fma1::kPadX;
    float4 values = make_float4(kPad, kPad, kPad, kPad);
    if (row0 + row < p.m && k0 + term < k_end)
      values = *reinterpret_cast<const float4*>(p.x + std::int64_t{row0 + row} * p.k + k0 + term);
    store(row, term, values.x);
    store(row, term + 1, values.y);
    store(row, term + 2, values.z);
    store(row, term + 3, values.w);
  }
}

// Likewise of the weights, widened; their padding is +0.
template <int kColumns, int kTerms, typename Store>
__device__ void load_w(const Params& p, int column0, int k0, int k_end, const Store& store) {
  constexpr int kVectors = kTerms / 4;
  for (int i = threadIdx.x; i < kColumns * kVectors; i += kThreads) {
    const int column = i / kVectors, term = i % kVectors * 4;
    uint2 words = make_uint2(0, 0);
    if (column0 + column < p.n && k0 + term < k_end)
      words = *reinterpret_cast<const uint2*>(p.w + std::int64_t{column0 + column} * p.k + k0 + term);
    store(column, term, __uint_as_float(words.x << 16));
    store(column, term + 1, __uint_as_float(words.x & 0xffff0000u));
    store(column, term + 2, __uint_as_float(words.y << 16));
    store(column, term + 3, __uint_as_float(words.y & 0xffff0000u));
  }
}

__device__ inline void leave_sum(const Params& p, int row, int column, float sum) {
  if (row >= p.m || column >= p.n) return;
  const std::int64_t at = std::int64_t{row} * p.n + column;
  if (p.atomic)
    atomicAdd(p.y + at, sum);
  else if (p.splits > 1)
    p.partials[std::int64_t{blockIdx.z} * p.m * p.n + at] = sum;
  else
    p.y[at] = sum;
}

// IEEE arithmetic. The sums of a split ascend in k in every tile, so the tile is free; where K is cut is not.
struct Fused {
  static constexpr Arithmetic kArithmetic = Arithmetic::kIeeeFma;
  __device__ static float apply(float x, float w, float sum) { return __fmaf_rn(x, w, sum); }
};
struct TwoRoundings {
  static constexpr Arithmetic kArithmetic = Arithmetic::kMultiplyThenAdd;
  __device__ static float apply(float x, float w, float sum) { return __fadd_rn(__fmul_rn(x, w), sum); }
};

// 8 x 16 threads, each with the rows and columns of the tile that are 8 and 16 apart.
template <class Operation, int kM, int kN, int kK>
__global__ void __launch_bounds__(kThreads) linear_ieee(const __grid_constant__ Params p) {
  constexpr int kThreadRows = 8, kThreadColumns = kThreads / kThreadRows;
  constexpr int kRows = kM / kThreadRows, kColumns = kN / kThreadColumns;
  __shared__ float x[kK][kM + 1];  // one more: no bank conflicts between neighbours in k
  __shared__ float w[kK][kN + 1];
  const int row0 = blockIdx.x * kM, column0 = blockIdx.y * kN;
  const int thread_row = threadIdx.x / kThreadColumns, thread_column = threadIdx.x % kThreadColumns;
  float sums[kRows][kColumns] = {};
  for (int k0 = split_begin(p), k_end = split_end(p); k0 < k_end; k0 += kK) {
    load_x<kM, kK>(p, row0, k0, k_end, [&](int row, int term, float value) { x[term][row] = value; });
    load_w<kN, kK>(p, column0, k0, k_end, [&](int column, int term, float value) { w[term][column] = value; });
    __syncthreads();
#pragma unroll 4
    for (int term = 0; term < kK; ++term) {
      float weights[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) weights[j] = w[term][thread_column + j * kThreadColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float activation = x[term][thread_row + i * kThreadRows];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] = Operation::apply(activation, weights[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      leave_sum(p, row0 + thread_row + i * kThreadRows, column0 + thread_column + j * kThreadColumns, sums[i][j]);
}

template <class Operation, Tile kShape>
Kernel kernel() {
  return {Operation::kArithmetic, kShape,
          reinterpret_cast<const void*>(&linear_ieee<Operation, kShape.m, kShape.n, kShape.k>)};
}

// Tensor cores.
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
  for (int k0 = split_begin(p), k_end = split_end(p); k0 < k_end; k0 += kTile.k) {
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

constexpr int kFoldThreads = 256;

__global__ void fold_splits(const __grid_constant__ Params p) {
  const std::int64_t values = std::int64_t{p.m} * p.n;
  const std::int64_t at = std::int64_t{blockIdx.x} * kFoldThreads + threadIdx.x;
  if (at >= values) return;
  float total = p.partials[at];
  for (int split = 1; split < p.splits; ++split) total = __fadd_rn(total, p.partials[split * values + at]);
  p.y[at] = total;
}

}  // namespace

std::vector<Kernel> ieee_kernels() {
  return {kernel<Fused, Tile{.m = 16, .n = 64, .k = 16}>(),
          kernel<Fused, Tile{.m = 16, .n = 64, .k = 32}>(),
          kernel<Fused, Tile{.m = 16, .n = 128, .k = 16}>(),
          kernel<Fused, Tile{.m = 16, .n = 128, .k = 32}>(),
          kernel<Fused, Tile{.m = 16, .n = 256, .k = 16}>(),
          kernel<Fused, Tile{.m = 16, .n = 256, .k = 32}>(),
          kernel<Fused, Tile{.m = 32, .n = 64, .k = 16}>(),
          kernel<Fused, Tile{.m = 32, .n = 64, .k = 32}>(),
          kernel<Fused, Tile{.m = 32, .n = 128, .k = 16}>(),
          kernel<Fused, Tile{.m = 32, .n = 128, .k = 32}>(),
          kernel<Fused, Tile{.m = 32, .n = 256, .k = 16}>(),
          kernel<Fused, Tile{.m = 32, .n = 256, .k = 32}>(),
          kernel<Fused, Tile{.m = 64, .n = 64, .k = 16}>(),
          kernel<Fused, Tile{.m = 64, .n = 64, .k = 32}>(),
          kernel<Fused, Tile{.m = 64, .n = 128, .k = 16}>(),
          kernel<Fused, Tile{.m = 64, .n = 128, .k = 32}>(),
          kernel<Fused, Tile{.m = 64, .n = 256, .k = 16}>(),
          kernel<Fused, Tile{.m = 64, .n = 256, .k = 32}>(),
          kernel<TwoRoundings, kTile>()};
}

std::vector<Kernel> tensor_core_kernels() {
  return {kernel<Tf32>(), kernel<Tf32x3>(), kernel<Bf16>()};
}

cudaError_t launch_fold_splits(const Params& params, cudaStream_t stream) {
  const std::int64_t values = std::int64_t{params.m} * params.n;
  const auto ctas = static_cast<unsigned>(ceil_div<std::int64_t>(values, kFoldThreads));
  fold_splits<<<ctas, kFoldThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace reprofuse::cuda::ablation
