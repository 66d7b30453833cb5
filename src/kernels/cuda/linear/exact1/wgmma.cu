// Built for sm_90a alone: the instructions exist nowhere else.
#include "kernels/cuda/linear/exact1/schedule.hpp"
#include "kernels/cuda/linear/exact1/wgmma.cuh"

namespace reprofuse::cuda::exact1 {
namespace {

template <typename W, int kTileM, int kGroups, int kStages, int kBlocks, bool kManyTiles = false>
Kernel kernel(const char* name, Cost cost) {
  using S = WgmmaShape<W, kTileM, kGroups, kStages, kBlocks, kManyTiles>;
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_wgmma<S>),
          .tile_m = kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = Stages<S>::kBytes,
          .vector_loads = true,
          .exchange = kManyTiles ? Exchange::kNone : Exchange::kCluster,
          .cost = cost};
}

// Costs as an H200 showed them.
template <typename W>
std::vector<Kernel> table() {
  return {kernel<W, 8, 1, 3, 3>("wgmma 8x64, three blocks", {.chunk = 1.13, .start = 11}),
          kernel<W, 8, 2, 5, 1>("wgmma 8x128", {.chunk = 1, .start = 8}),
          kernel<W, 8, 3, 4, 1>("wgmma 8x192", {.chunk = 1.35, .start = 8}),
          kernel<W, 16, 2, 5, 1>("wgmma 16x128", {.chunk = 1.1, .start = 8}),
          kernel<W, 32, 2, 5, 1>("wgmma 32x128", {.chunk = 1.25, .start = 10}),
          kernel<W, 32, 2, 5, 1, true>("wgmma 32x128, many tiles", {.chunk = 1.2, .start = 10}),
          kernel<W, 32, 3, 3, 1>("wgmma 32x192", {.chunk = 2.05, .start = 5.9}),
          kernel<W, 64, 2, 4, 1>("wgmma 64x128", {.chunk = 1.6, .start = 9}),
          kernel<W, 64, 2, 4, 1, true>("wgmma 64x128, many tiles", {.chunk = 1.6, .start = 9.2})};
}

}  // namespace

std::vector<Kernel> wgmma_kernels(DType dtype) {
  if (dtype == DType::kBF16) return table<Bf16Weight>();
  if (dtype == DType::kF16) return table<F16Weight>();
  return {};
}

}  // namespace reprofuse::cuda::exact1
