// int16-1 for many rows on compute capability 9.0, sm_90a alone: tiles of 128 rows of x by 128 weight rows, one 32-bit
// sum for each output and block of terms. A block takes two rounds: the products of high digits, whose sums are shifted
// by a digit, then the mixed products on top of them.
#include "kernels/cuda/linear/int16/wgmma_sums_sm90a.cuh"
#include "kernels/cuda/ptx/sm90.cuh"

namespace reprofuse::cuda::int16 {

// Two pipelines, of high digits and of low ones. A stage has that digit of a k-tile, of the weight rows, then of the
// rows of x.
struct Rounds {
  using Row = int16::Row;
  static constexpr bool kPersistent = false;
  static constexpr int kTileM = 128, kTileN = kPreparedRows, kWarpgroups = 2;
  static constexpr int kMathThreads = kWarpgroups * kWarpgroup, kThreads = kMathThreads + kWarpgroup;
  static constexpr int kMathRegisters = 232, kProducerRegisters = 40;
  static_assert(can_move_registers(kMathThreads, kMathRegisters, kWarpgroup, kProducerRegisters, 1));
  static constexpr int kPlaneBytes = kTileM * kTileK, kStageBytes = 2 * kPlaneBytes;
  static_assert(kTileM == kTileN, "the planes of both operands are alike");
  // High digits of a block stay until its second round; low ones pass by.
  static constexpr int kHighStages = kBlockTiles, kMidStages = 3, kStages = kHighStages + kMidStages;
  static constexpr int kSumPitch = sum_pitch(kTileN);  // of the sums that the cluster reads
  static_assert(kTileM * kSumPitch * 8 <= kStages * kStageBytes, "the sums take the place of the stages");
};

// What a CTA has in shared memory besides the stages.
struct RoundsSharedState {
  std::uint64_t barriers[2 * Rounds::kStages];
  int factors[Rounds::kMidStages][Rounds::kTileM];
  Row rows[Rounds::kTileM];
  std::uint8_t exponents[Rounds::kTileN];
};

struct RoundsShared {
  static constexpr int kStagesBytes = Rounds::kStages * Rounds::kStageBytes;
  static constexpr int kBytes = kStagesBytes + static_cast<int>(sizeof(RoundsSharedState));
  static_assert(fits_shared(kBytes, 1, kSmSharedBytesSm90));

  unsigned char* memory;

  __device__ explicit RoundsShared(unsigned char* shared) : memory(shared) {}
  __device__ unsigned char* high(int stage) const { return memory + stage * Rounds::kStageBytes; }
  __device__ unsigned char* mid(int stage) const { return high(Rounds::kHighStages + stage); }
  __device__ RoundsSharedState& state() const { return *reinterpret_cast<RoundsSharedState*>(memory + kStagesBytes); }
  __device__ ptx::Pipeline highs() const { return {state().barriers, Rounds::kStages}; }
  __device__ ptx::Pipeline mids() const { return {state().barriers, Rounds::kStages, Rounds::kHighStages}; }
};

// Where a warpgroup stands in either pipeline.
struct RoundsState {
  ptx::PipelineState high, mid;
};

// One digit of the CTA's k-tiles, by one thread.
template <int kDigit>
__device__ inline void load_planes(const Params& p, const TileScheduler<Rounds>& scheduler,
                                   const RoundsShared& shared) {
  constexpr int kStages = kDigit == 0 ? Rounds::kHighStages : Rounds::kMidStages, kPlane = Rounds::kPlaneBytes;
  constexpr int kFactorBytes = kDigit == 0 ? 0 : Rounds::kTileM * static_cast<int>(sizeof(int));
  const ptx::Pipeline pipeline = kDigit == 0 ? shared.highs() : shared.mids();
  const WgmmaTile tile = scheduler.at(0);
  const auto memory_of = [&](int stage) { return kDigit == 0 ? shared.high(stage) : shared.mid(stage); };
  const auto load_weights = [&](int stage, int k_tile) {
    std::uint64_t* full = pipeline.full_barrier(stage);
    ptx::mbarrier_arrive_expect_tx(full, Rounds::kStageBytes + kFactorBytes);
    ptx::tma_load_bulk(memory_of(stage), prepared_weights(p, tile, k_tile) + kDigit * kPlane, kPlane, full);
  };
  const auto load_digits = [&](int stage, int k_tile) {
    std::uint64_t* full = pipeline.full_barrier(stage);
    const std::uint8_t* from =
        p.digits + (static_cast<std::int64_t>(tile.row_tile) * p.k_tiles + k_tile) * tile_bytes(Rounds::kTileM);
    ptx::tma_load_bulk(memory_of(stage) + kPlane, from + kDigit * kPlane, kPlane, full);
    if constexpr (kDigit == 1)
      ptx::tma_load_bulk(shared.state().factors[stage], from + digit_bytes(Rounds::kTileM), kFactorBytes, full);
  };
  // Prologue: weights that were digits before this launch are loaded before the digits of x are known.
  if (!p.digits_in_place) wait_for_previous_kernel();
  const int count = scheduler.end - scheduler.begin, ahead = min(kStages, count);
  for (int i = 0; i < ahead; ++i) load_weights(i, scheduler.begin + i);
  wait_for_previous_kernel();
  for (int i = 0; i < ahead; ++i) load_digits(i, scheduler.begin + i);

  // Main loop
  for (int filled = ahead; filled < count; ++filled) {
    const auto at = ptx::PipelineState::of_producer(filled, kStages);
    pipeline.wait_empty(at);
    load_weights(at.stage, scheduler.begin + filled);
    load_digits(at.stage, scheduler.begin + filled);
  }
}

// What a thread has of a tile: sums of one block of terms, and totals of those before.
struct RoundSums {
  static constexpr int kOne = Rounds::kTileM / 2;
  int sums[kOne];
  long long totals[kOne] = {};

  // The sums of high digits to their place, once their products are complete.
  __device__ void shift() {
    ptx::warpgroup_fence_operand(sums);
#pragma unroll
    for (int& sum : sums) sum <<= 8;
  }
  // The sums of a block go to the totals.
  __device__ void finish(const int* factors, int lane) {
    ptx::warpgroup_fence_operand(sums);
#pragma unroll
    for (int i = 0; i < kOne; i += 4) {
      const int2 factor = *reinterpret_cast<const int2*>(factors + i / 4 * 8 + lane % 4 * 2);
#pragma unroll
      for (int j = i; j < i + 4; ++j) totals[j] += static_cast<long long>(sums[j]) * (j % 2 == 0 ? factor.x : factor.y);
    }
  }
  __device__ long long of(int i) const {
    return totals[i];
  }
};
static_assert(sizeof(RoundSums) / 4 + 32 <= Rounds::kMathRegisters,
              "sums, totals and some 32 registers of descriptors and states must fit");

namespace {

// Sums the products of k-tiles `begin` to `end`, block by block, and releases their stages. One piece: both rounds
// share the stages of high digits, and the sums stay in registers.
__device__ inline void multiply_rounds(const RoundsShared& shared, const MathThread<Rounds>& own, int begin, int end,
                                       RoundSums& sums) {
  using Descriptor = ptx::SharedMemoryDescriptor;
  constexpr int kStage = Descriptor::advance(Rounds::kStageBytes), kX = Descriptor::advance(Rounds::kPlaneBytes);
  constexpr int kStep = Descriptor::advance(2 * Descriptor::kCoreMatrixBytes);  // 32 terms
  const auto descriptor = [](const void* start) {
    return Descriptor{.start_address = ptx::shared_address(start),
                      .leading_byte_offset = Descriptor::kCoreMatrixBytes,
                      .stride_byte_offset = kTileK * 8}
        .word();
  };
  const int weights = warp_uniform(own.group) * (kWarpgroupRows * kTileK);
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
      const int high_stage = at.high.stage * kStage;
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kTileK / 32; ++step)
        ptx::wgmma_m64k32_s8<Rounds::kTileM>(sums.sums, w0 + high_stage + step * kStep, x0 + high_stage + step * kStep,
                                             step != 0 || i != 0);
      ptx::wgmma_commit_group();
      at.high.advance(Rounds::kHighStages);
    }
    ptx::wgmma_wait_group<0>();
    sums.shift();

    // Second round
    int mid_stage = 0;
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      mids.wait_full(at.mid);
      mid_stage = at.mid.stage;
      const int stage0 = high.stage * kStage, stage1 = mid_stage * kStage;
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kTileK / 32; ++step) {
        ptx::wgmma_m64k32_s8<Rounds::kTileM>(sums.sums, w0 + stage0 + step * kStep, x1 + stage1 + step * kStep, true);
        ptx::wgmma_m64k32_s8<Rounds::kTileM>(sums.sums, w1 + stage1 + step * kStep, x0 + stage0 + step * kStep, true);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();  // of the k-tile before
      if (i != 0 && own.lane == 0) {
        highs.release(high.previous_stage(Rounds::kHighStages));
        mids.release(at.mid.previous_stage(Rounds::kMidStages));
      }
      high.advance(Rounds::kHighStages);
      at.mid.advance(Rounds::kMidStages);
    }
    ptx::wgmma_wait_group<0>();
    sums.finish(shared.state().factors[mid_stage], own.lane);
    __syncwarp();
    if (own.lane == 0) {
      highs.release(high.previous_stage(Rounds::kHighStages));
      mids.release(mid_stage);
    }
    k_tile += tiles;
  }
}

// The CTA's k-tiles of one tile; where others have the rest of them, their sums are added over the cluster.
__device__ inline void multiply_split(const Params& p, const TileScheduler<Rounds>& scheduler,
                                      const RoundsShared& shared) {
  const WgmmaTile tile = scheduler.at(0);
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
  // Shared memory: stages, then RoundsSharedState
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
