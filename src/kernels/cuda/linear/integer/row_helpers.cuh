// What kernels that are no products need: rows of activations and of weights, their magnitudes and digits, partials.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/linear/integer/terms.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::integer {

inline constexpr std::uint32_t kMagnitude = 0x7fffffffu;

// The largest over the CTA, known to every thread. Not to be called again before the CTA has synchronised.
template <int kThreads = kRowThreads>
__device__ inline std::uint32_t cta_max(std::uint32_t value) {
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

// A RowGroup, the threads that have a row together: those of a CTA, or of a cluster (silu_rows_sm90.cuh). All of them
// call its functions, each once.
struct CtaRow {
  static constexpr int kCtas = 1;

  __device__ static int rank() { return 0; }
  __device__ static std::uint32_t max(std::uint32_t value) { return value; }
  __device__ static long long sum(long long value) { return value; }
  __device__ static void leave() {}
};

__device__ inline std::uint32_t max_magnitude(const float4& x) {
  return umax(umax(__float_as_uint(x.x) & kMagnitude, __float_as_uint(x.y) & kMagnitude),
              umax(__float_as_uint(x.z) & kMagnitude, __float_as_uint(x.w) & kMagnitude));
}

// Prefetches the row into the L2, should it not be there: weights are about to take all of the memory's bandwidth.
__device__ inline void prefetch_row(const Params& p) {
#if __CUDA_ARCH__ >= 900
  const float* row = p.x + blockIdx.x * p.x_stride;
  for (int k = threadIdx.x * 32; blockIdx.x < p.m && k < p.k; k += kRowThreads * 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + k));
#endif
}

// One output of one row: the sum of its partials, rounded. `offset` is what the bias that makes weights unsigned adds
// to the sums of a row.
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

__device__ inline std::uint32_t magnitude_bits(const WeightRows& rows, std::int64_t i) {
  if (rows.dtype == DType::kF32) return static_cast<const std::uint32_t*>(rows.w)[i] & kMagnitude;
  const std::uint32_t half = static_cast<const std::uint16_t*>(rows.w)[i];
  if (rows.dtype == DType::kBF16) return half << 16 & kMagnitude;
  return __float_as_uint(__half2float(__ushort_as_half(static_cast<std::uint16_t>(half)))) & kMagnitude;
}

// Of row blockIdx.x, known to every thread.
__device__ inline std::uint32_t max_magnitude(const WeightRows& rows) {
  std::uint32_t max = 0;
  for (int i = threadIdx.x; i < rows.k; i += kRowThreads)
    max = umax(max, magnitude_bits(rows, blockIdx.x * rows.stride + i));
  return cta_max(max);
}

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

// Digits of weights for kernels that take both operands from shared memory: worth its time where many rows of x meet
// them. A contract brings split(terms, scale, digits): a word of each digit of four terms.
// Grid: groups of eight rows of all column tiles of the launch, groups of eight k-tiles.
template <typename W, int kDigits, typename Scale, typename Split>
__device__ inline void prepare_k_tile(const Params& p, const Scale& scale_of, const Split& split) {
  constexpr int kHalves = kTileK / 64;  // of a k-tile; a thread has 16 terms of one row in each
  constexpr int kQuads = 4;             // of terms, 16 apart, that lie side by side in the operand
  const int groups = p.tile_n / kPrepareRows, tile = blockIdx.x / groups, group = blockIdx.x % groups;
  const int lane = threadIdx.x % kWarp, row = lane / 4, vector = lane % 4;  // of 16 bytes
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
      const int k = k_tile * kTileK + half * 64 + quad * 16 + vector * 4;
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
      *reinterpret_cast<uint4*>(to + d * plane + (half * 4 + vector) * 128) =
          make_uint4(digits[0][d], digits[1][d], digits[2][d], digits[3][d]);
  }
}

}  // namespace reprofuse::cuda::integer
