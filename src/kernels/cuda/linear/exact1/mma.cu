#include "kernels/cuda/linear/exact1/mma.cuh"
#include "kernels/cuda/linear/exact1/schedule.hpp"

namespace reprofuse::cuda::exact1 {
namespace {

template <typename W, int kTileM, bool kVectorLoads>
Kernel kernel(const char* name, Cost cost) {
  using S = MmaShape<W, kTileM, kVectorLoads>;
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_mma<S>),
          .tile_m = kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = S::kSharedBytes,
          .vector_loads = kVectorLoads,
          .exchange = Exchange::kPartials,
          .cost = cost};
}

template <typename W>
std::vector<Kernel> table() {
  return {kernel<W, 16, true>("mma 16x64", {.chunk = 4, .start = 6}),
          kernel<W, 64, true>("mma 64x64", {.chunk = 12, .start = 6}),
          kernel<W, 16, false>("mma 16x64, any alignment", {.chunk = 8, .start = 6}),
          kernel<W, 64, false>("mma 64x64, any alignment", {.chunk = 16, .start = 6})};
}

}  // namespace

std::vector<Kernel> mma_kernels(DType dtype) {
  if (dtype == DType::kBF16) return table<Bf16Weight>();
  if (dtype == DType::kF16) return table<F16Weight>();
  return table<F32Weight>();
}

}  // namespace reprofuse::cuda::exact1
