// int16-1 on compute capability 9.0, sm_90a alone, where both operands come to shared memory as digits, so that the
// math threads do nothing but multiply.
#include "kernels/cuda/linear/int16/wgmma_sums_sm90a.cuh"

namespace reprofuse::cuda::int16 {
namespace {

// Sums the products of k-tiles `begin` to `end`, block by block, and releases their stages.
template <typename S>
__device__ inline void multiply_prepared(const WgmmaShared<S>& shared, ptx::PipelineState& at, const MathThread<S>& own,
                                         int begin, int end, Sums<S>& sums) {
  using Descriptor = ptx::SharedMemoryDescriptor;
  const auto descriptor = [](const void* start) {
    return Descriptor{.start_address = ptx::shared_address(start),
                      .leading_byte_offset = Descriptor::kCoreMatrixBytes,
                      .stride_byte_offset = kTileK * 8}
        .word();
  };
  constexpr int kPlane = Descriptor::advance(S::kTileN * kTileK), kStage = Descriptor::advance(S::kStageBytes);
  const std::uint64_t weights = descriptor(shared.weights(0) + warp_uniform(own.group) * (kWarpgroupRows * kTileK));
  const std::uint64_t digits = descriptor(shared.digits(0));
  const ptx::Pipeline pipeline = shared.pipeline();
  for (int k_tile = begin; k_tile < end;) {
    const int first = k_tile, block_end = min(end, (k_tile / kBlockTiles + 1) * kBlockTiles);
    int stage;
#pragma unroll 1
    do {
      pipeline.wait_full(at);
      stage = at.stage;
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kTileK / 32; ++step) {
        const int advance = stage * kStage + step * Descriptor::advance(2 * Descriptor::kCoreMatrixBytes);
        const std::uint64_t w[kDigits] = {weights + advance, weights + advance + kPlane};
        sums.add(w, digits + advance, step == 0 && k_tile == first);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();  // of the k-tile before
      shared.release(at.previous_stage(S::kStages), k_tile != first && own.lane == 0);
      at.advance(S::kStages);
    } while (++k_tile < block_end);
    ptx::wgmma_wait_group<0>();
    finish_block<S>(shared.digits(stage), own, sums);
    __syncwarp();
    shared.release(stage, own.lane == 0);
  }
}

// Bits: equal reference::linear_int16. Grid: any number of persistent CTAs, or clusters of p.splits CTAs, one for each
// tile.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_prepared(const __grid_constant__ Params p) {
  // Shared memory: stages, then SharedState
  extern __shared__ __align__(1024) unsigned char memory[];
  const WgmmaShared<S> shared(memory);
  const TileScheduler<S> scheduler(p);
  run_roles<S>(p, scheduler, shared, [&] {
    const auto multiply = [&](const WgmmaTile&, auto& at, const auto& own, auto& sums) {
      multiply_prepared<S>(shared, at, own, scheduler.begin, scheduler.end, sums);
    };
    if constexpr (S::kPersistent)
      multiply_tiles<S>(p, scheduler, multiply);
    else
      multiply_split<S>(p, scheduler, shared, multiply);
  });
}

template <WgmmaShape kShape>
Kernel kernel(const char* name, DigitCost digit_cost, Cost cost = {}) {
  static_assert(kShape.prepared);
  using S = Wgmma<void, kShape>;
  Kernel found = wgmma_kernel<S>(name, cost, kMaxKTiles);
  found.function = reinterpret_cast<const void*>(&linear_prepared<S>);
  found.digit_cost = digit_cost;
  return found;
}

}  // namespace

// Costs as an H200 showed them.
std::vector<Kernel> prepared_kernels(bool digits_in_place) {
  std::vector<Kernel> kernels = {
      kernel<WgmmaShape{.tile_m = 8, .warpgroups = 2, .stages = 6, .ctas_per_sm = 1, .prepared = true}>(
          "prepared 8x128", {.k_tile = 0.31, .start = 3.6, .exchange = 0.3}),
      kernel<WgmmaShape{.tile_m = 16, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1, .prepared = true}>(
          "prepared 16x128", {.k_tile = 0.38, .start = 4, .exchange = 1.6}),
      kernel<WgmmaShape{.tile_m = 32, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1, .prepared = true}>(
          "prepared 32x128", {.k_tile = 0.42, .start = 5.2, .exchange = 1.1}),
      kernel<WgmmaShape{
          .tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1, .math_registers = 232, .prepared = true}>(
          "prepared 64x128", {.k_tile = 0.66, .start = 6.7, .exchange = 2.2}),
      kernel<WgmmaShape{.tile_m = 64,
                        .warpgroups = 2,
                        .stages = 4,
                        .ctas_per_sm = 1,
                        .math_registers = 232,
                        .persistent = true,
                        .prepared = true}>("prepared 64x128, many tiles", {.k_tile = 0.66, .start = 5, .exchange = 0},
                                           {.k_tile = 0.95, .start = 18, .prepare = 2.76}),
      kernel<WgmmaShape{.tile_m = 80,
                        .warpgroups = 2,
                        .stages = 4,
                        .ctas_per_sm = 1,
                        .math_registers = 232,
                        .prepared = true}>("prepared 80x128", {.k_tile = 0.81, .start = 7.4, .exchange = 2.8}),
      kernel<WgmmaShape{.tile_m = 96,
                        .warpgroups = 2,
                        .stages = 3,
                        .ctas_per_sm = 1,
                        .math_registers = 232,
                        .prepared = true}>("prepared 96x128", {.k_tile = 0.96, .start = 8.1, .exchange = 3.4})};
  if (digits_in_place)  // half a tile of prepared weights: the CTAs that share one find it in the L2
    kernels.push_back(
        kernel<WgmmaShape{.tile_m = 32, .warpgroups = 1, .stages = 4, .ctas_per_sm = 2, .prepared = true}>(
            "prepared 32x64", {.k_tile = 0.44, .start = 4.8, .exchange = 1.1}));
  return kernels;
}

}  // namespace reprofuse::cuda::int16
