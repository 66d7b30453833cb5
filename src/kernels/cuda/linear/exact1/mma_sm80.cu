// exact-1 with mma.sync, for every GPU from compute capability 8.0 on.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/integer/mma_sm80.cuh"

namespace reprofuse::cuda::exact1 {
namespace {

struct Products : Contract {
  template <int kBlocks, int kGroups>
  struct Sums {
    int classes[kClasses][kBlocks][kGroups][4] = {};

    // The eight products of 32 terms; that of the two lowest digits is left out.
    template <int kPair>
    __device__ void add(const std::uint32_t (&w)[kBlocks][kDigits][4], const std::uint32_t (&x)[kDigits][kPair][2],
                        int first_group) {
#pragma unroll
      for (int d = 0; d < kDigits; ++d)
#pragma unroll
        for (int e = 0; e < kDigits; ++e)
#pragma unroll
          for (int block = 0; block < kBlocks; ++block)
#pragma unroll
            for (int pair = 0; pair < kPair; ++pair)
              if (d + e < kClasses)
                ptx::mma_m16n8k32_u8_s8(classes[d + e][block][first_group + pair], w[block][e], x[d][pair]);
    }
    __device__ void finish_stage(int, int, const unsigned char*, int) {}
    __device__ long long of(int block, int group, int i) const {
      return combined(classes[0][block][group][i], classes[1][block][group][i], classes[2][block][group][i],
                      classes[3][block][group][i]);
    }
  };
};

// Bits: equal reference::linear_exact1, once add_partials has added the splits.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_mma(const __grid_constant__ Params p) {
  // Shared memory: stages
  extern __shared__ __align__(128) unsigned char shared[];
  multiply_tile<S>(p, shared);
}

template <typename Weights, MmaShape kShape>
Kernel kernel(const char* name, DigitCost cost) {
  using S = MmaSizes<Products, Weights, kShape>;
  return mma_kernel<S>(name, reinterpret_cast<const void*>(&linear_mma<S>), cost, kMaxKTiles);
}

// Costs as an H200 showed them.
template <typename W>
std::vector<Kernel> table() {
  using Vectors = FormatWeights<W, true>;
  std::vector<Kernel> kernels = {
      kernel<Vectors, k16x64>("mma 16x64", {.k_tile = 0.54, .start = 7.5, .exchange = 1}),
      kernel<Vectors, k64x128>("mma 64x128", {.k_tile = 2.75, .start = 7.5, .exchange = 1.3}),
      kernel<FormatWeights<W, false>, k32x128>("mma 32x128, any alignment",
                                               {.k_tile = 4.2, .start = 7.5, .exchange = 0.9})};
  if constexpr (sizeof(typename W::Bits) == 2) {
    kernels.push_back(kernel<Vectors, k8x32>("mma 8x32", {.k_tile = 0.28, .start = 5.7, .exchange = 1.1}));
    kernels.push_back(kernel<Vectors, k32x64>("mma 32x64", {.k_tile = 0.875, .start = 7, .exchange = 0.7}));
    kernels.push_back(kernel<Vectors, k32x128>("mma 32x128", {.k_tile = 1.72, .start = 7.5, .exchange = 0.9}));
  }
  return kernels;
}

// Many rows of x: digits of weights, which another kernel has made. Two CTAs on an SM do not wait at the same barrier.
constexpr MmaShape kManyRows{.tile_m = 64,
                             .tile_n = 64,
                             .warps_m = 2,
                             .warps_n = 2,
                             .warps_k = 1,
                             .stage_steps = 1,
                             .stages = 4,
                             .ctas_per_sm = 2};

}  // namespace

std::vector<Kernel> mma_kernels(DType dtype, bool) {
  std::vector<Kernel> kernels = dtype == DType::kBF16  ? table<Bf16Weight>()
                                : dtype == DType::kF16 ? table<F16Weight>()
                                                       : table<F32Weight>();
  kernels.push_back(
      kernel<DigitWeights<64>, kManyRows>("mma digits 64x64", {.k_tile = 1.2, .start = 7.5, .prepare = 0.02}));
  return kernels;
}

}  // namespace reprofuse::cuda::exact1
