// The rotation of queries and keys, and what a kernel does that stores keys and values by some Store: a function object
// that is given a row's rotated key in the registers of a warp.
#pragma once

#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/elementwise/rms_norm.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "numerics/float_ops.hpp"

namespace reprofuse::cuda::ops {

using reprofuse::fma1::kNormLanes;

constexpr int kPairs = kMaxHeadDim / 2 / kWarp;  // of a lane, at most
static_assert(kMaxHeadDim <= kNormLanes, "an element of a head has a chain of the norm to itself");

// The cosines and sines of a position, for the pairs of a lane.
struct Rotation {
  float cos[kPairs], sin[kPairs];

  __device__ void load(const float* cosines, const float* sines, int half, int lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      cos[i] = d < half ? __ldg(cosines + d) : 0.0f;
      sin[i] = d < half ? __ldg(sines + d) : 0.0f;
    }
  }
};

// A head in the registers of a warp: lane l holds elements l + 32 i of the first half, and their partners.
struct Head {
  float a[kPairs], b[kPairs];

  __device__ void load(const float* from, int half, int lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      a[i] = d < half ? from[d] : 0.0f;
      b[i] = d < half ? from[d + half] : 0.0f;
    }
  }

  // Element d is chain d of the sum of squares, one term long.
  __device__ void normalize(const float* weight, float eps, int half, int lane, float* chains) {
    for (int i = lane; i < kNormLanes; i += kWarp) chains[i] = 0.0f;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      if (d < half) {
        chains[d] = fma_rn(a[i], a[i], 0.0f);
        chains[d + half] = fma_rn(b[i], b[i], 0.0f);
      }
    }
    __syncwarp();
    const float inverse = inverse_rms(halving_tree(chains), 2 * half, eps);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      if (d < half) {
        a[i] = __fmul_rn(weight[d], __fmul_rn(a[i], inverse));
        b[i] = __fmul_rn(weight[d + half], __fmul_rn(b[i], inverse));
      }
    }
  }

  __device__ void rotate(const Rotation& rotation, int half, int lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int d = lane + i * kWarp;
      if (d < half) {
        const float c = rotation.cos[i], s = rotation.sin[i], first = a[i], second = b[i];
        a[i] = fma_rn(first, c, -__fmul_rn(second, s));
        b[i] = fma_rn(second, c, __fmul_rn(first, s));
      }
    }
  }
};

// Bits: equal reference::rotary, or that of Store's contract. A warp owns one head of one row: of q, or of k and v.
template <typename Store>
__global__ __launch_bounds__(kRotaryWarps* kWarp) void rotary_and_store(const __grid_constant__ RotaryParams p) {
  __shared__ float chains[kRotaryWarps][kNormLanes];
  let_next_kernel_start();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int row = blockIdx.x, any_head = blockIdx.y * kRotaryWarps + warp;  // of q, then k
  const int half = p.kv.head_dim / 2;
  const bool is_query = any_head < p.heads;
  // The arrays of a batch and the tables are written by copies, for which every kernel waits before it starts.
  const int position = p.positions[row];
  const int page = is_query ? 0 : p.kv.page_of(p.sequences[row], position);
  const std::int64_t angle = static_cast<std::int64_t>(position) * half;
  Rotation rotation;
  rotation.load(p.cos + angle, p.sin + angle, half, lane);
  wait_for_previous_kernel();
  if (any_head >= p.heads + p.kv.kv_heads) return;
  const int head = is_query ? any_head : any_head - p.heads;
  float* query = p.q + row * p.q_stride + head * p.kv.head_dim;
  const float* weight = is_query ? p.q_norm : p.k_norm;
  Head rotated;
  rotated.load(is_query ? query : p.k + row * p.k_stride + head * p.kv.head_dim, half, lane);
  if (weight != nullptr) rotated.normalize(weight, p.eps, half, lane, chains[warp]);
  rotated.rotate(rotation, half, lane);
  if (!is_query) {
    Store()(p, rotated, row, page, position, head, lane);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int d = lane + i * kWarp;
    if (d < half) {
      query[d] = rotated.a[i];
      query[d + half] = rotated.b[i];
    }
  }
}

}  // namespace reprofuse::cuda::ops
