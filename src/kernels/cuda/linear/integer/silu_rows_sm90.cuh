// The SiLU gate that leaves its results as digits, for the linear layer that follows: a cluster for each row, on
// compute capability 9.0 and later.
#pragma once

#include "kernels/cuda/linear/integer/row_helpers.cuh"
#include "kernels/cuda/linear/integer/schedule.hpp"
#include "kernels/cuda/ptx/sm90.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "numerics/exp_log.hpp"

namespace reprofuse::cuda::integer {

// The RowGroup of a cluster, whose CTAs have consecutive terms each; they exchange values by distributed shared memory.
template <int kCtas_>
struct ClusterRow {
  static constexpr int kCtas = kCtas_;

  __device__ static int rank() { return blockIdx.x % kCtas; }
  // Over all CTAs, of a value that all threads of a CTA know; all get it.
  __device__ static std::uint32_t max(std::uint32_t value) {
    __shared__ __align__(16) long long exchanged[2];
    if (threadIdx.x == 0) exchanged[0] = value;
    ptx::cluster_sync();
    return __reduce_max_sync(~0u, static_cast<std::uint32_t>(ptx::ld_shared_cluster(exchanged, threadIdx.x % kCtas).x));
  }
  // Of a value that the first thread of each CTA knows; that of the first CTA gets it.
  __device__ static long long sum(long long value) {
    __shared__ __align__(16) long long exchanged[2];
    if (threadIdx.x == 0) exchanged[0] = value;
    ptx::cluster_sync();
    long long total = 0;
    if (rank() == 0 && threadIdx.x == 0)
      for (int i = 0; i < kCtas; ++i) total += ptx::ld_shared_cluster(exchanged, i).x;
    return total;
  }
  // No CTA may go while another reads from it.
  __device__ static void leave() { ptx::cluster_sync(); }
};

// Terms k to k + 3 of a row, zero beyond its end.
__device__ inline float4 load_four(const float* row, int k, int count, bool aligned) {
  if (aligned) return *reinterpret_cast<const float4*>(row + k);
  return make_float4(row[k], k + 1 < count ? row[k + 1] : 0.0f, k + 2 < count ? row[k + 2] : 0.0f,
                     k + 3 < count ? row[k + 3] : 0.0f);
}

// An SM alone would take longer for the exponentials of a long row than all else.
inline constexpr int kSiluCtas = 8, kSiluThreads = 256;

// Bits: digits of what reference::silu_gate gives. Grid: a cluster for each row, padding included.
template <typename Snap, int kHeld>
__global__ __launch_bounds__(kSiluThreads) void silu_rows(const __grid_constant__ SiluRowsParams p) {
#if __CUDA_ARCH__ >= 900
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int m = blockIdx.x / kSiluCtas, count = p.silu.cols;
  const float* gate = p.silu.gate + m * p.silu.gate_stride;
  const float* up = p.silu.up + m * p.silu.up_stride;
  Snap::template row<ClusterRow<kSiluCtas>, kSiluThreads, kHeld>(p.to, m, [&](int k) {
    const float4 g = load_four(gate, k, count, p.silu.aligned), u = load_four(up, k, count, p.silu.aligned);
    const float4 value = make_float4(__fmul_rn(silu(g.x), u.x), __fmul_rn(silu(g.y), u.y), __fmul_rn(silu(g.z), u.z),
                                     __fmul_rn(silu(g.w), u.w));
    if (p.silu.y != nullptr) {
      float* y = p.silu.y + m * p.silu.y_stride;
      for (int i = 0; i < 4 && k + i < count; ++i) y[k + i] = (&value.x)[i];
    }
    return value;
  });
#endif
}

// The shortest code that holds a row of k elements.
template <typename Snap>
RowKernel silu_rows_kernel(int k) {
  const auto kernel = [](void (*function)(SiluRowsParams)) {
    return RowKernel{reinterpret_cast<const void*>(function), kSiluThreads, kSiluCtas};
  };
  constexpr int kVectors = 4 * kSiluThreads * kSiluCtas;
  if (k <= kVectors) return kernel(&silu_rows<Snap, 1>);
  if (k <= 2 * kVectors) return kernel(&silu_rows<Snap, 2>);
  return {};
}

}  // namespace reprofuse::cuda::integer
