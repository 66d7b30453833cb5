// int16-1 for many rows on compute capability 9.0: tiles of 128 rows of x by 128 weight rows, one 32-bit sum for each
// output and block of terms. A block takes two rounds: first the products of high digits, whose sums are then shifted
// by a digit, then the mixed products on top of them. High digits of a block wait in shared memory for the second
// round. Built for sm_90a alone: the instructions exist nowhere else.
#include "kernels/cuda/linear/int16/rounds_sm90a.cuh"

namespace reprofuse::cuda::int16 {
namespace {

// Sums the products of k-tiles `begin` to `end`, block by block, and releases their slots. One piece: both rounds share
// the slots, and the sums stay in registers.
__device__ inline void multiply_rounds(const RoundsShared& shared, const MathThread<Rounds>& own, int begin, int end,
                                       RoundSums& sums) {
  using Descriptor = ptx::SharedMemoryDescriptor;
  constexpr int kSlot = Descriptor::advance(Rounds::kSlotBytes), kX = Descriptor::advance(Rounds::kPlaneBytes);
  constexpr int kStep = Descriptor::advance(2 * Descriptor::kCoreMatrixBytes);  // 32 terms
  const auto descriptor = [](const void* start) {
    return Descriptor{.start_address = ptx::shared_address(start),
                      .leading_byte_offset = Descriptor::kCoreMatrixBytes,
                      .stride_byte_offset = kTileK * 8}
        .word();
  };
  const int weights = same_in_warp(own.group) * (kWarpgroupRows * kTileK);
  const std::uint64_t w0 = descriptor(shared.high(0) + weights), w1 = descriptor(shared.mid(0) + weights);
  const std::uint64_t x0 = descriptor(shared.high(0)) + kX, x1 = descriptor(shared.mid(0)) + kX;
  const ptx::Pipeline highs = shared.highs(), mids = shared.mids();
  RoundsState at;
  for (int k_tile = begin; k_tile < end;) {
    const int tiles = min(end, (k_tile / kBlockTiles + 1) * kBlockTiles) - k_tile;
    ptx::PipelineState high = at.high;
    // First round
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      highs.wait_full(at.high);
      const int slot = at.high.stage * kSlot;
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kTileK / 32; ++step)
        ptx::wgmma_m64k32_s8<Rounds::kTileM>(sums.sums, w0 + slot + step * kStep, x0 + slot + step * kStep,
                                             step != 0 || i != 0);
      ptx::wgmma_commit_group();
      at.high.advance(Rounds::kHighSlots);
    }
    ptx::wgmma_wait_group<0>();
    sums.shift();

    // Second round
    int mid_slot = 0;
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      mids.wait_full(at.mid);
      mid_slot = at.mid.stage;
      const int slot0 = high.stage * kSlot, slot1 = mid_slot * kSlot;
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kTileK / 32; ++step) {
        ptx::wgmma_m64k32_s8<Rounds::kTileM>(sums.sums, w0 + slot0 + step * kStep, x1 + slot1 + step * kStep, true);
        ptx::wgmma_m64k32_s8<Rounds::kTileM>(sums.sums, w1 + slot1 + step * kStep, x0 + slot0 + step * kStep, true);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();  // of the k-tile before
      if (i != 0 && own.lane == 0) {
        highs.release(high.previous_stage(Rounds::kHighSlots));
        mids.release(at.mid.previous_stage(Rounds::kMidSlots));
      }
      high.advance(Rounds::kHighSlots);
      at.mid.advance(Rounds::kMidSlots);
    }
    ptx::wgmma_wait_group<0>();
    sums.finish(shared.state().factors[mid_slot], own.lane);
    __syncwarp();
    if (own.lane == 0) {
      highs.release(high.previous_stage(Rounds::kHighSlots));
      mids.release(mid_slot);
    }
    k_tile += tiles;
  }
}

// The CTA's k-tiles of one tile; where others have the rest of them, shown to the cluster.
__device__ inline void multiply_split(const Params& p, const TileScheduler<Rounds>& scheduler,
                                      const RoundsShared& shared) {
  const Tile tile = scheduler.at(0);
  const MathThread<Rounds> own;
  load_epilogue_state<Rounds>(p, tile, shared.state());
  RoundSums sums;
  multiply_rounds(shared, own, scheduler.begin, scheduler.end, sums);
  if (p.splits == 1)
    store_whole_tile<Rounds>(p, tile, own, sums);
  else
    exchange_sums<Rounds>(p, tile, shared, own, sums, [](const Row&) { return 0; });
}

// Bits: equal reference::linear_int16. Grid: clusters of p.splits CTAs, one for each tile.
__global__ __launch_bounds__(Rounds::kThreads, 1) void linear_rounds(const __grid_constant__ Params p) {
  // Shared memory: slots, then RoundsSharedState
  extern __shared__ __align__(1024) unsigned char memory[];
  const RoundsShared shared(memory);
  const TileScheduler<Rounds> scheduler(p);
  // Initialize barriers
  if (threadIdx.x == 0) {
    shared.highs().init(1, Rounds::kMathThreads / kWarp);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= Rounds::kMathThreads) {
    // TMA threads: one for each digit
    ptx::setmaxnreg_dec<Rounds::kProducerRegisters>();
    if (threadIdx.x == Rounds::kMathThreads) load_planes<0>(p, scheduler, shared);
    if (threadIdx.x == Rounds::kMathThreads + kWarp) load_planes<1>(p, scheduler, shared);
    wait_for_previous_kernel();
    __syncwarp();
    if (p.splits > 1) meet_math_threads(p);
  } else {
    // Math warpgroups
    ptx::setmaxnreg_inc<Rounds::kMathRegisters>();
    multiply_split(p, scheduler, shared);
  }
}

}  // namespace

// Costs as an H200 showed them.
std::vector<Kernel> rounds_kernels() {
  return {{.name = "rounds 128x128",
           .function = reinterpret_cast<const void*>(&linear_rounds),
           .tile_m = Rounds::kTileM,
           .tile_n = Rounds::kTileN,
           .threads = Rounds::kThreads,
           .shared_bytes = RoundsShared::kBytes,
           .vector_loads = true,
           .split_k = SplitK::kCluster,
           .cost = {.k_tile = 1.68, .start = 25, .prepare = 2.76},
           .max_k_tiles = kMaxKTiles,
           .takes_digits = true,
           .digit_cost = {.k_tile = 1.26, .start = 10, .exchange = 4.5}}};
}

}  // namespace reprofuse::cuda::int16
