// exact-1 with mma.sync, for every GPU from compute capability 8.0 on.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/integer/mma_sm80.cuh"

namespace reprofuse::cuda::exact1 {
namespace {

template <typename W, MmaShape kShape>
struct Mma : MmaSizes<W, kShape, tile_bytes(kShape.tile_m)> {
  static constexpr int kDigits = exact1::kDigits;
  // Sums of all classes, the digits and 16 terms of two weight rows, the digits of eight rows of x.
  static_assert(kClasses * kShape.tile_m / 2 + kDigits * 4 + 2 * kThreadTerms + kDigits * 2 + 24 <=
                    registers_per_thread(128, 1),
                "a thread's operands and some 24 registers of addresses must fit");
};

// sums[16, 8] += a[16, 32] * b[32, 8], unsigned times signed bytes.
__device__ inline void mma_m16n8k32(int* sums, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <typename S>
struct Sums {
  int classes[kClasses][S::kTileM / 2] = {};

  // The eight products of 32 terms with each eight rows of x; that of the two lowest digits is left out.
  __device__ void add(const std::uint32_t (&w)[kDigits][4], const unsigned char* digits) {
#pragma unroll
    for (int block = 0; block < S::kTileM / 8; ++block) {
      uint2 x[kDigits];
#pragma unroll
      for (int d = 0; d < kDigits; ++d) x[d] = load_digits(digits + d * S::kPlaneBytes, block);
#pragma unroll
      for (int d = 0; d < kDigits; ++d)
#pragma unroll
        for (int e = 0; e < kDigits; ++e)
          if (d + e < kClasses) mma_m16n8k32(&classes[d + e][block * 4], w[e], x[d].x, x[d].y);
    }
  }
  __device__ void finish_k_tile(int, bool, const unsigned char*) {}
  __device__ long long of(int i) const {
    return combined(classes[0][i], classes[1][i], classes[2][i], classes[3][i]);
  }
};

// Bits: equal reference::linear_exact1, once add_partials has added the splits. Grid: splits, tiles of rows, of
// columns.
template <typename S>
__global__ __launch_bounds__(S::kThreads) void linear_mma(const __grid_constant__ Params p) {
  // Shared memory: two stages of digits of x
  extern __shared__ __align__(128) unsigned char shared[];
  const MmaTile<S> tile(p);
  const float scale = scale_of_weights(exponent_byte(tile.out, tile.n));
  const float scale8 = scale_of_weights(exponent_byte(tile.out, tile.n + 8));
  Sums<S> sums;
  multiply_k_tiles<S>(p, tile, shared, sums,
                      [&](const auto& own, const auto& own8, auto& w) { split_weights(own, own8, scale, scale8, w); });
  store_sums<Row>(p, tile, sums, [](const Row& row) { return row.offset; });
}

template <typename W, MmaShape kShape>
Kernel kernel(const char* name, Cost cost) {
  using S = Mma<W, kShape>;
  Kernel found = mma_kernel<S>(name, cost, kMaxKTiles);
  found.function = reinterpret_cast<const void*>(&linear_mma<S>);
  return found;
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
