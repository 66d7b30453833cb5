// exact-1 with the integer matrix product that every GPU from compute capability 8.0 on has. A warp owns 16 weight rows
// and takes them from memory to digits in registers; the digits of x come through shared memory. Any alignment, any
// weight format.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/exact1/schedule.hpp"
#include "kernels/cuda/ptx/copy.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

struct MmaShape {
  int tile_m;         // rows of x
  bool vector_loads;  // 16-byte aligned weight rows, k a multiple of 8
};

template <typename W_, MmaShape kShape>
struct Mma {
  using W = W_;
  static constexpr int kTileM = kShape.tile_m;
  static constexpr bool kVectorLoads = kShape.vector_loads;
  static constexpr int kThreads = 128;
  static constexpr int kTileN = kThreads / 32 * 16;
  static constexpr int kPlaneBytes = kTileM * kTileK;
  static constexpr int kStageBytes = kDigits * kPlaneBytes;
  static constexpr int kSharedBytes = 2 * kStageBytes;
  static_assert(kStageBytes % (kThreads * 16) == 0, "every thread brings as many vectors of digits");
  static_assert(fits_shared(kSharedBytes, 1, kMinSmSharedBytes),
                "every supported device must have room for two stages");
  // Sums of all classes, the digits and 16 terms of two weight rows, the digits of eight rows of x.
  static_assert(kClasses * kTileM / 2 + kDigits * 4 + 2 * kThreadTerms + kDigits * 2 + 24 <=
                    registers_per_thread(kThreads, 1),
                "a thread's operands and some 24 registers of addresses must fit");
};

// Terms k to k + 7 of a weight row, zero beyond K.
template <typename S>
__device__ inline void load_terms(const void* row, int k, int end, float (&terms)[kThreadTerms]) {
  using W = typename S::W;
  const auto* bits = static_cast<const typename W::Bits*>(row) + k;
  if constexpr (S::kVectorLoads) {
#pragma unroll
    for (int v = 0; v < kThreadTerms / W::kPerVector; ++v) {
      const uint4 vector = k < end ? __ldg(reinterpret_cast<const uint4*>(bits) + v) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < W::kPerVector; ++i) terms[v * W::kPerVector + i] = W::element(vector, i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kThreadTerms; ++i) terms[i] = W::element(make_uint4(k + i < end ? bits[i] : 0u, 0, 0, 0), 0);
  }
}

template <typename S>
__device__ inline void fetch_digits(const Params& p, unsigned char* stage, int k_tile) {
  const std::uint8_t* from = p.digits + (static_cast<std::int64_t>(blockIdx.y) * p.k_tiles + k_tile) * S::kStageBytes;
#pragma unroll
  for (int at = threadIdx.x * 16; at < S::kStageBytes; at += S::kThreads * 16)
    ptx::cp_async_no_prefetch(stage + at, from + at);
}

// sums[16, 8] += a[16, 32] * b[32, 8], unsigned times signed bytes.
__device__ inline void mma_m16n8k32(int* sums, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The eight products of 32 terms with each eight rows of x; that of the two lowest digits is left out.
template <typename S>
__device__ inline void multiply_terms(int (&sums)[kClasses][S::kTileM / 2], const std::uint32_t (&w)[kDigits][4],
                                      const unsigned char* digits) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int block = 0; block < S::kTileM / 8; ++block) {
    std::uint32_t x[kDigits][2];
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[d][half] = *reinterpret_cast<const std::uint32_t*>(digits + d * S::kPlaneBytes + block * (kTileK * 8) +
                                                             half * 128 + lane * 4);
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
#pragma unroll
      for (int e = 0; e < kDigits; ++e)
        if (d + e < kClasses) mma_m16n8k32(&sums[d + e][block * 4], w[e], x[d][0], x[d][1]);
  }
}

template <typename S>
__device__ inline void store_sums(const Params& p, const Output& out, int m0, int n0,
                                  const int (&sums)[kClasses][S::kTileM / 2]) {
  const int lane = threadIdx.x % 32, n = n0 + threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; ++i) {
    const int m = m0 + i / 4 * 8 + lane % 4 * 2 + i % 2, column = n + i % 4 / 2 * 8;
    if (m >= p.m || column >= out.n) continue;
    const long long sum = combined(sums[0][i], sums[1][i], sums[2][i], sums[3][i]);
    if (p.splits > 1)
      p.partials[(std::int64_t{blockIdx.x} * p.m + m) * p.columns + out.first_column + column] = sum;
    else
      store_result(p, out, m, Column(out, column), p.rows[m], sum - p.rows[m].offset);
  }
}

// Bits: equal reference::linear_exact1, once add_partials has added the splits. Grid: splits, tiles of rows, of
// columns.
template <typename S>
__global__ __launch_bounds__(S::kThreads) void linear_mma(const __grid_constant__ Params p) {
  // Shared memory: two stages of digits of x
  extern __shared__ __align__(128) unsigned char shared[];

  // The CTA's tile, and the thread's weight rows
  const Output& out = output_of_tile(p, blockIdx.z);
  const int n0 = (blockIdx.z - out.first_tile) * S::kTileN, m0 = blockIdx.y * S::kTileM;
  const int lane = threadIdx.x % 32, n = n0 + threadIdx.x / 32 * 16 + lane / 4;
  const int begin = p.k_tiles * blockIdx.x / p.splits, end = p.k_tiles * (blockIdx.x + 1) / p.splits;
  const auto row_of = [&](int row) {
    return static_cast<const typename S::W::Bits*>(out.w) + min(row, out.n - 1) * out.w_stride;
  };
  const auto *row = row_of(n), *row8 = row_of(n + 8);
  const float scale = weight_scale(exponent_of(out, n)), scale8 = weight_scale(exponent_of(out, n + 8));

  // Prologue
  int sums[kClasses][S::kTileM / 2] = {};
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (begin < end) fetch_digits<S>(p, shared, begin);
  ptx::cp_async_commit_group();

  // Main loop
  for (int k_tile = begin; k_tile < end; ++k_tile) {
    const unsigned char* stage = shared + (k_tile - begin) % 2 * S::kStageBytes;
    if (k_tile + 1 < end) fetch_digits<S>(p, shared + (k_tile + 1 - begin) % 2 * S::kStageBytes, k_tile + 1);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kTileK / 32; ++step) {
      const int k = k_tile * kTileK + first_term(step, lane % 4);
      float own[kThreadTerms], own8[kThreadTerms];
      load_terms<S>(row, k, p.k, own);
      load_terms<S>(row8, k, p.k, own8);
      std::uint32_t w[kDigits][4];
      split_weights(own, own8, scale, scale8, w);
      multiply_terms<S>(sums, w, stage + step * 256);
    }
    __syncthreads();
  }

  // Epilogue
  store_sums<S>(p, out, m0, n0, sums);
}

template <typename W, MmaShape kShape>
Kernel kernel(const char* name, Cost cost) {
  using S = Mma<W, kShape>;
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_mma<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = S::kSharedBytes,
          .vector_loads = S::kVectorLoads,
          .exchange = Exchange::kPartials,
          .cost = cost};
}

template <typename W>
std::vector<Kernel> table() {
  return {
      kernel<W, MmaShape{.tile_m = 16, .vector_loads = true}>("mma 16x64", {.k_tile = 4, .start = 6}),
      kernel<W, MmaShape{.tile_m = 64, .vector_loads = true}>("mma 64x64", {.k_tile = 12, .start = 6}),
      kernel<W, MmaShape{.tile_m = 16, .vector_loads = false}>("mma 16x64, any alignment", {.k_tile = 8, .start = 6}),
      kernel<W, MmaShape{.tile_m = 64, .vector_loads = false}>("mma 64x64, any alignment", {.k_tile = 16, .start = 6})};
}

}  // namespace

std::vector<Kernel> mma_kernels(DType dtype) {
  if (dtype == DType::kBF16) return table<Bf16Weight>();
  if (dtype == DType::kF16) return table<F16Weight>();
  return table<F32Weight>();
}

}  // namespace reprofuse::cuda::exact1
