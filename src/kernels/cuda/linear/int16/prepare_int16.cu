// Digits of weights for kernels that take both operands from shared memory: worth its time where many rows of x meet
// them.
#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/runtime/launch.hpp"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::int16 {
namespace {

constexpr int kWarps = 8, kRows = 8;  // a warp has so many rows of one k-tile
constexpr int kHalves = kTileK / 64;  // of a k-tile; a thread has 16 terms of one row in each
constexpr int kQuads = 4;             // of terms, 16 apart, that lie side by side in the operand

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

__device__ inline void split_quad(const float4& terms, float inverse, std::uint32_t& high, std::uint32_t& low) {
  gather_digits({snap_biased(terms.x, inverse), snap_biased(terms.y, inverse), snap_biased(terms.z, inverse),
                 snap_biased(terms.w, inverse)},
                high, low);
}

// Grid: groups of eight rows of all column tiles of the launch, groups of eight k-tiles.
template <typename W>
__global__ __launch_bounds__(kWarps* kWarp) void prepare_weights(const __grid_constant__ Params p) {
  constexpr int kGroups = kPreparedRows / kRows;
  const int tile = blockIdx.x / kGroups, group = blockIdx.x % kGroups;
  const int lane = threadIdx.x % kWarp, row = lane / 4, chunk = lane % 4;  // of 16 bytes
  const int k_tile = blockIdx.y * kWarps + threadIdx.x / kWarp;
  const Output& out = output_of_tile(p, p.first_column_tile + tile);
  const int n = (p.first_column_tile + tile - out.first_tile) * kPreparedRows + group * kRows + row;
  const auto* weights = static_cast<const typename W::Bits*>(out.w) + min(n, out.n - 1) * out.w_stride;
  const float inverse = inverse_unit(exponent_byte(out, n));
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
  std::uint8_t* to =
      p.weights + (std::int64_t{tile} * p.k_tiles + k_tile) * kPreparedBytes + place_in_digits(group * kRows + row, 0);
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    uint4 high, low;
    split_quad(terms[half][0], inverse, high.x, low.x);
    split_quad(terms[half][1], inverse, high.y, low.y);
    split_quad(terms[half][2], inverse, high.z, low.z);
    split_quad(terms[half][3], inverse, high.w, low.w);
    const int at = (half * 4 + chunk) * 128;
    *reinterpret_cast<uint4*>(to + at) = high;
    *reinterpret_cast<uint4*>(to + kPreparedRows * kTileK + at) = low;
  }
}

}  // namespace

const void* prepare_kernel(DType dtype) {
  if (dtype == DType::kBF16) return reinterpret_cast<const void*>(&prepare_weights<Bf16Weight>);
  if (dtype == DType::kF16) return reinterpret_cast<const void*>(&prepare_weights<F16Weight>);
  return reinterpret_cast<const void*>(&prepare_weights<F32Weight>);
}

cudaError_t launch_prepare_weights(const Params& params, DType dtype, cudaStream_t stream) {
  const dim3 grid(params.column_tiles * (kPreparedRows / kRows), ceil_div(params.k_tiles, kWarps));
  return launch_kernel(prepare_kernel(dtype), {grid, kWarps * kWarp}, params, stream);
}

}  // namespace reprofuse::cuda::int16
