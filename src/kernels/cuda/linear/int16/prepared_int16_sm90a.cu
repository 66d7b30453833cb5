// int16-1 for many rows on compute capability 9.0: both operands come to shared memory as digits, so that the math
// threads do nothing but multiply. Built for sm_90a alone: the instructions exist nowhere else.
#include "kernels/cuda/linear/int16/wgmma_sums_sm90a.cuh"

namespace reprofuse::cuda::int16 {
namespace {

// Sums the products of all k-tiles, block by block, and releases their stages.
template <typename S>
__device__ inline void multiply_prepared(const WgmmaShared<S>& shared, ptx::PipelineState& at, const MathThread<S>& own,
                                         int k_tiles, Sums<S>& sums) {
  using Descriptor = ptx::SharedMemoryDescriptor;
  const auto descriptor = [](const void* start) {
    return Descriptor{.start_address = ptx::shared_address(start),
                      .leading_byte_offset = Descriptor::kCoreMatrixBytes,
                      .stride_byte_offset = kTileK * 8}
        .word();
  };
  constexpr int kPlane = Descriptor::advance(kPreparedRows * kTileK), kStage = Descriptor::advance(S::kStageBytes);
  const std::uint64_t weights = descriptor(shared.weights(0) + own.group * (kWarpgroupRows * kTileK));
  const std::uint64_t digits = descriptor(shared.digits(0));
  const ptx::Pipeline pipeline = shared.pipeline();
  for (int k_tile = 0; k_tile < k_tiles;) {
    const int first = k_tile, block_end = min(k_tiles, k_tile + kBlockTiles);
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

// Bits: equal reference::linear_int16. Grid: any number of persistent CTAs.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_prepared(const __grid_constant__ Params p) {
  // Shared memory: stages, then SharedState
  extern __shared__ __align__(1024) unsigned char memory[];
  const WgmmaShared<S> shared(memory);
  const TileScheduler<S> scheduler(p);
  run_roles<S>(p, scheduler, shared, [&] {
    multiply_tiles<S>(p, scheduler, [&](const Tile&, auto& at, const auto& own, auto& sums) {
      multiply_prepared<S>(shared, at, own, p.k_tiles, sums);
    });
  });
}

template <int kTileM, int kStages>
Kernel kernel(const char* name, Cost cost) {
  using S = Wgmma<void, WgmmaShape{.tile_m = kTileM,
                                   .warpgroups = 2,
                                   .stages = kStages,
                                   .ctas_per_sm = 1,
                                   .persistent = true,
                                   .prepared = true}>;
  Kernel found = wgmma_kernel<S>(name, cost, kMaxKTiles);
  found.function = reinterpret_cast<const void*>(&linear_prepared<S>);
  return found;
}

}  // namespace

// Costs as an H200 showed them.
std::vector<Kernel> prepared_kernels() {
  return {kernel<64, 4>("prepared 64x128", {.k_tile = 0.95, .start = 18, .prepare = 2.76}),
          kernel<96, 3>("prepared 96x128", {.k_tile = 1.37, .start = 18, .prepare = 2.76})};
}

}  // namespace reprofuse::cuda::int16
