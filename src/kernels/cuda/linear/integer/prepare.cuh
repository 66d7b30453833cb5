// Digits of weights for kernels that take both operands from shared memory: worth its time where many rows of x meet
// them. A contract brings split(terms, scale, digits): a word of each digit of four terms.
#pragma once

#include "base/math.hpp"
#include "kernels/cuda/linear/integer/terms.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::integer {

inline constexpr int kPrepareWarps = 8, kPrepareThreads = kPrepareWarps * kWarp;
inline constexpr int kPrepareRows = 8;  // that a warp has, of one k-tile

// Four terms of a row that its vector loads can read.
template <typename W>
__device__ inline float4 load_quad(const typename W::Bits* from) {
  uint4 vector{};
  if constexpr (sizeof(typename W::Bits) == 4) {
    vector = __ldg(reinterpret_cast<const uint4*>(from));
  } else {
    const uint2 half = __ldg(reinterpret_cast<const uint2*>(from));
    vector.x = half.x;
    vector.y = half.y;
  }
  return make_float4(W::element(vector, 0), W::element(vector, 1), W::element(vector, 2), W::element(vector, 3));
}

// Grid: groups of eight rows of all column tiles of the launch, groups of eight k-tiles.
template <typename W, int kDigits, typename Scale, typename Split>
__device__ inline void prepare_k_tile(const Params& p, const Scale& scale_of, const Split& split) {
  constexpr int kHalves = kTileK / 64;  // of a k-tile; a thread has 16 terms of one row in each
  constexpr int kQuads = 4;             // of terms, 16 apart, that lie side by side in the operand
  const int groups = p.tile_n / kPrepareRows, tile = blockIdx.x / groups, group = blockIdx.x % groups;
  const int lane = threadIdx.x % kWarp, row = lane / 4, chunk = lane % 4;  // of 16 bytes
  const int k_tile = blockIdx.y * kPrepareWarps + threadIdx.x / kWarp;
  const Output& out = output_of_tile(p, p.first_column_tile + tile);
  const int n = (p.first_column_tile + tile - out.first_tile) * p.tile_n + group * kPrepareRows + row;
  const auto* weights = static_cast<const typename W::Bits*>(out.w) + min(n, out.n - 1) * out.w_stride;
  const float scale = scale_of(exponent_byte(out, n));
  float4 terms[kHalves][kQuads];
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const int k = k_tile * kTileK + half * 64 + quad * 16 + chunk * 4;
      terms[half][quad] = n < out.n && k < p.k ? load_quad<W>(weights + k) : make_float4(0, 0, 0, 0);
    }
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (k_tile >= p.k_tiles) return;
  const int plane = p.tile_n * kTileK;
  std::uint8_t* to = p.weights + (std::int64_t{tile} * p.k_tiles + k_tile) * (kDigits * plane) +
                     place_in_digits(group * kPrepareRows + row, 0);
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    std::uint32_t digits[kQuads][kDigits];
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) split(terms[half][quad], scale, digits[quad]);
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
      *reinterpret_cast<uint4*>(to + d * plane + (half * 4 + chunk) * 128) =
          make_uint4(digits[0][d], digits[1][d], digits[2][d], digits[3][d]);
  }
}

// The kernel for weights of a format.
inline cudaError_t launch_prepare(const void* kernel, const Params& params, cudaStream_t stream) {
  const dim3 grid(params.column_tiles * (params.tile_n / kPrepareRows), ceil_div(params.k_tiles, kPrepareWarps));
  return launch_kernel(kernel, {grid, kPrepareThreads}, params, stream);
}

}  // namespace reprofuse::cuda::integer
