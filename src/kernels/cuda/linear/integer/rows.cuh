// What kernels that are no products need: rows of activations, magnitudes, partials.
#pragma once

#include <cuda_fp16.h>

#include "base/math.hpp"
#include "kernels/cuda/linear/integer/digit_rows.hpp"
#include "kernels/cuda/linear/integer/terms.cuh"
#include "kernels/cuda/ptx/cluster.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::integer {

inline constexpr std::uint32_t kMagnitude = 0x7fffffffu;
inline constexpr std::uint32_t kInfinity = 0x7f800000u;

// The largest over the CTA, known to every thread. Not to be called again before the CTA has synchronised.
template <int kThreads = kRowThreads>
__device__ inline std::uint32_t block_max(std::uint32_t value) {
  __shared__ std::uint32_t warps[kThreads / kWarp];
  value = __reduce_max_sync(~0u, value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  return __reduce_max_sync(~0u, warps[threadIdx.x % (kThreads / kWarp)]);
}

// Terms k to k + 3 of a row, zero beyond its end.
__device__ inline float4 load_terms(const Params& p, int m, int k) {
  const float* x = p.x + m * p.x_stride + k;
  if (p.x_aligned && k + 4 <= p.k) return *reinterpret_cast<const float4*>(x);
  return make_float4(k < p.k ? x[0] : 0.0f, k + 1 < p.k ? x[1] : 0.0f, k + 2 < p.k ? x[2] : 0.0f,
                     k + 3 < p.k ? x[3] : 0.0f);
}

// What a thread holds of a row at a time: kHeld vectors of four terms, those of a warp side by side.
template <int kThreads, int kHeld>
struct HeldTerms {
  static constexpr int kTerms = kThreads * kHeld * 4;  // of the CTA
  static_assert(kThreads * 4 % kTileK == 0 && kWarp * 4 == kTileK, "a warp's vectors are a k-tile");
  float4 vectors[kHeld];

  // The first term of vector i, of those from term `first` on.
  __device__ static int term(int first, int i) { return first + (i * kThreads + threadIdx.x) * 4; }
  // terms(k): the four from k on; zeros from term `end` on.
  template <typename Terms>
  __device__ void load(int first, int end, const Terms& terms) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int k = term(first, i);
      vectors[i] = k < end ? terms(k) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  }
};

// Who has a row: a CTA alone, or a cluster of them, each so many terms that lie together.
struct WholeRow {
  static constexpr int kCtas = 1;

  __device__ static int rank() { return 0; }
  __device__ static std::uint32_t max(std::uint32_t value) { return value; }
  __device__ static long long sum(long long value) { return value; }
  __device__ static void leave() {}
};

// Asked by all threads of all CTAs together, each question once.
template <int kCtas_>
struct ClusterRow {
  static constexpr int kCtas = kCtas_;

  __device__ static int rank() { return blockIdx.x % kCtas; }
  // Over all CTAs, of a value that all threads of a CTA know; all get it.
  __device__ static std::uint32_t max(std::uint32_t value) {
    __shared__ __align__(16) long long shown[2];
    if (threadIdx.x == 0) shown[0] = value;
    ptx::cluster_sync();
    return __reduce_max_sync(~0u, static_cast<std::uint32_t>(ptx::ld_shared_cluster(shown, threadIdx.x % kCtas).x));
  }
  // Of a value that the first thread of each CTA knows; that of the first CTA gets it.
  __device__ static long long sum(long long value) {
    __shared__ __align__(16) long long shown[2];
    if (threadIdx.x == 0) shown[0] = value;
    ptx::cluster_sync();
    long long total = 0;
    if (rank() == 0 && threadIdx.x == 0)
      for (int i = 0; i < kCtas; ++i) total += ptx::ld_shared_cluster(shown, i).x;
    return total;
  }
  // No CTA may go while another reads from it.
  __device__ static void leave() { ptx::cluster_sync(); }
};

__device__ inline std::uint32_t max_magnitude(const float4& x) {
  return umax(umax(__float_as_uint(x.x) & kMagnitude, __float_as_uint(x.y) & kMagnitude),
              umax(__float_as_uint(x.z) & kMagnitude, __float_as_uint(x.w) & kMagnitude));
}

// The row on its way to the L2, should it not be there: weights are about to take all of the memory's bandwidth.
__device__ inline void prefetch_row(const Params& p) {
#if __CUDA_ARCH__ >= 900
  const float* row = p.x + blockIdx.x * p.x_stride;
  for (int k = threadIdx.x * 32; blockIdx.x < p.m && k < p.k; k += kRowThreads * 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + k));
#endif
}

// One output of one row: the sum of its partials, rounded. `offset` is what a row's sums have too much.
template <typename Row, typename Offset>
__device__ inline void add_partials_of(const Params& p, const Offset& offset) {
  const int column = blockIdx.x * kRowThreads + threadIdx.x, m = blockIdx.y;
  if (column >= p.columns) return;
  const std::int64_t stride = std::int64_t{p.m} * p.columns;
  const long long* partial = p.partials + std::int64_t{m} * p.columns + column;
  long long sum = 0;
#pragma unroll 4
  for (int split = 0; split < p.splits; ++split) sum += partial[split * stride];
  int i = p.count - 1;
  while (i > 0 && p.outputs[i].first_column > column) --i;
  const int n = column - p.outputs[i].first_column;
  const Row& row = static_cast<const Row*>(p.rows)[m];
  store_result(p, p.outputs[i], m, Column(p.outputs[i], n), row, sum - offset(row));
}

inline dim3 grid_of_partials(const Params& p) {
  return {static_cast<unsigned>(ceil_div(p.columns, kRowThreads)), static_cast<unsigned>(p.m)};
}

// A weight matrix whose exponents are sought.
struct WeightRows {
  const void* w;
  std::int64_t stride;
  int n, k;
  DType dtype;
  std::uint8_t* exponents;
  int* first_bad;

  WeightRows(const WeightView& weight, std::uint8_t* exponents_, int* first_bad_)
      : w(weight.data),
        stride(weight.stride),
        n(static_cast<int>(weight.n)),
        k(static_cast<int>(weight.k)),
        dtype(weight.dtype),
        exponents(exponents_),
        first_bad(first_bad_) {}

  __device__ std::uint32_t magnitude_bits(std::int64_t i) const {
    if (dtype == DType::kF32) return static_cast<const std::uint32_t*>(w)[i] & kMagnitude;
    const std::uint32_t half = static_cast<const std::uint16_t*>(w)[i];
    if (dtype == DType::kBF16) return half << 16 & kMagnitude;
    return __float_as_uint(__half2float(__ushort_as_half(static_cast<std::uint16_t>(half)))) & kMagnitude;
  }
  // Of row blockIdx.x, known to every thread.
  __device__ std::uint32_t largest() const {
    std::uint32_t max = 0;
    for (int i = threadIdx.x; i < k; i += kRowThreads) max = umax(max, magnitude_bits(blockIdx.x * stride + i));
    return block_max(max);
  }
};

}  // namespace reprofuse::cuda::integer
