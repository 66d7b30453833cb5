// int16-1 with mma.sync, for every GPU from compute capability 8.0 on.
#include "kernels/cuda/linear/int16/digits.cuh"
#include "kernels/cuda/linear/integer/mma_sm80.cuh"

namespace reprofuse::cuda::int16 {
namespace {

struct Products : Contract {
  // Of one block of terms, and totals of those before.
  template <int kBlocks, int kGroups>
  struct Sums {
    int high[kBlocks][kGroups][4] = {}, mid[kBlocks][kGroups][4] = {};
    long long totals[kBlocks][kGroups][4] = {};

    // The three products of 32 terms; that of the two low digits is left out.
    template <int kPair>
    __device__ void add(const std::uint32_t (&w)[kBlocks][kDigits][4], const std::uint32_t (&x)[kDigits][kPair][2],
                        int first_group) {
#pragma unroll
      for (int product = 0; product < 3; ++product)
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
#pragma unroll
          for (int pair = 0; pair < kPair; ++pair)
            ptx::mma_m16n8k32_s8((product == 1 ? high : mid)[block][first_group + pair], w[block][product / 2],
                                 x[product == 0 ? 1 : 0][pair]);
    }
    // The sums of a block go to the totals; its factors came with its digits.
    __device__ void finish_stage(int step, int next, const unsigned char* rest, int first_row) {
      constexpr int kBlockSteps = kTermBlock / kStepTerms;
      if (next >= 0 && next / kBlockSteps == step / kBlockSteps) return;
      const int* factors = reinterpret_cast<const int*>(rest) + first_row + threadIdx.x % 4 * 2;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const int2 factor = *reinterpret_cast<const int2*>(factors + group * 8);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            int &own_high = high[block][group][i], &own_mid = mid[block][group][i];
            totals[block][group][i] =
                add_block(totals[block][group][i], own_high, own_mid, i % 2 == 0 ? factor.x : factor.y);
            own_high = own_mid = 0;
          }
      }
    }
    __device__ long long of(int block, int group, int i) const {
      return totals[block][group][i];
    }
  };
};

// Bits: equal reference::linear_int16, once add_partials has added the splits.
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

// Costs of digits as an H200 showed them; those of formats lie between these and exact-1's.
template <typename W>
std::vector<Kernel> table() {
  using Vectors = FormatWeights<W, true>;
  std::vector<Kernel> kernels = {kernel<Vectors, k16x64>("mma 16x64", {.k_tile = 0.5, .start = 6.5, .exchange = 1.5}),
                                 kernel<Vectors, k64x128>("mma 64x128", {.k_tile = 1.9, .start = 6, .exchange = 1.3}),
                                 kernel<FormatWeights<W, false>, k32x128>("mma 32x128, any alignment",
                                                                          {.k_tile = 3, .start = 6, .exchange = 0.9})};
  if constexpr (sizeof(typename W::Bits) == 2) {
    kernels.push_back(kernel<Vectors, k8x32>("mma 8x32", {.k_tile = 0.25, .start = 6, .exchange = 1.5}));
    kernels.push_back(kernel<Vectors, k32x64>("mma 32x64", {.k_tile = 0.69, .start = 5.5, .exchange = 0.9}));
    kernels.push_back(kernel<Vectors, k32x128>("mma 32x128", {.k_tile = 1.35, .start = 6, .exchange = 0.9}));
  }
  return kernels;
}

// Many rows of x: digits of weights.
constexpr MmaShape kManyRows{.tile_m = 64,
                             .tile_n = 128,
                             .warps_m = 2,
                             .warps_n = 4,
                             .warps_k = 1,
                             .stage_steps = 4,
                             .stages = 2,
                             .ctas_per_sm = 1};

std::vector<Kernel> digits_table() {
  return {kernel<DigitWeights<128>, k8x32>("mma digits 8x32", {.k_tile = 0.24, .start = 5, .exchange = 2.5}),
          kernel<DigitWeights<128>, k16x64>("mma digits 16x64", {.k_tile = 0.42, .start = 6, .exchange = 1.5}),
          kernel<DigitWeights<128>, k32x64>("mma digits 32x64", {.k_tile = 0.585, .start = 5.5, .exchange = 0.9}),
          kernel<DigitWeights<128>, k32x128>("mma digits 32x128", {.k_tile = 1.15, .start = 6, .exchange = 0.9})};
}

}  // namespace

std::vector<Kernel> mma_kernels(DType dtype, bool digits_in_place) {
  std::vector<Kernel> kernels = digits_in_place         ? digits_table()
                                : dtype == DType::kBF16 ? table<Bf16Weight>()
                                : dtype == DType::kF16  ? table<F16Weight>()
                                                        : table<F32Weight>();
  kernels.push_back(kernel<DigitWeights<128>, kManyRows>(
      "mma digits 64x128", {.k_tile = 1.4, .start = 6, .exchange = 1.3, .prepare = 0.03}));
  for (Kernel& kernel : kernels) kernel.digits_in_place = digits_in_place;
  return kernels;
}

}  // namespace reprofuse::cuda::int16
