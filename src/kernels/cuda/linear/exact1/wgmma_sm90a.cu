// exact-1 on compute capability 9.0, sm_90a alone: a producer thread keeps TMA loads of weights and digits in flight,
// warpgroups turn weights into digits in registers and multiply them by the activations' digits in shared memory. CTAs
// that share K add their sums through distributed shared memory; where tiles are many, CTAs are persistent.
#include "kernels/cuda/linear/exact1/digits.cuh"
#include "kernels/cuda/linear/integer/wgmma_roles_sm90a.cuh"

namespace reprofuse::cuda::exact1 {
namespace {

template <typename W, WgmmaShape kShape>
struct Wgmma : WgmmaSizes<W, kShape, tile_bytes(kShape.tile_m)> {
  using Row = exact1::Row;
  using Sizes = WgmmaSizes<W, kShape, tile_bytes(kShape.tile_m)>;
  // Sums of all classes, or of a digit of w with all digits of x at once; two steps' digits of w; 16 terms of two rows.
  static constexpr int kSums = kShape.tile_m <= 16 ? 8 * kShape.tile_m / 2 : kClasses * kShape.tile_m / 2;
  static constexpr int kLiveRegisters = kSums + 2 * kDigits * 4 + 2 * kThreadTerms;
  static_assert(kLiveRegisters + 24 <= Sizes::kMathRegisters,
                "sums, digits and some 24 registers of addresses must fit");
};

// Sums of the eight products of digits, by class; that of the two lowest digits is left out.
template <typename S, bool kAtOnce = (S::kTileM <= 16)>
struct Sums {
  int classes[kClasses][S::kTileM / 2] = {};

  // The products of 32 terms.
  __device__ void add(const std::uint32_t (&w)[kDigits][4], std::uint64_t digits) {
    constexpr int kTileM = S::kTileM, kPlane = ptx::SharedMemoryDescriptor::advance(S::kPlaneBytes);
    ptx::wgmma_m64k32<kTileM>(classes[0], w[0], digits);
    ptx::wgmma_m64k32<kTileM>(classes[1], w[0], digits + kPlane);
    ptx::wgmma_m64k32<kTileM>(classes[1], w[1], digits);
    ptx::wgmma_m64k32<kTileM>(classes[2], w[0], digits + 2 * kPlane);
    ptx::wgmma_m64k32<kTileM>(classes[2], w[1], digits + kPlane);
    ptx::wgmma_m64k32<kTileM>(classes[2], w[2], digits);
    ptx::wgmma_m64k32<kTileM>(classes[3], w[1], digits + 2 * kPlane);
    ptx::wgmma_m64k32<kTileM>(classes[3], w[2], digits + kPlane);
  }
  __device__ long long of(int i) const { return combined(classes[0][i], classes[1][i], classes[2][i], classes[3][i]); }
};

// With few rows of x an instruction takes longer to issue than to compute: a digit of the weights meets all digits of x
// at once, as if they were rows of their own.
template <typename S>
struct Sums<S, true> {
  static constexpr int kOne = S::kTileM / 2;
  int high[3 * kOne] = {}, middle[3 * kOne] = {}, low[2 * kOne] = {};

  __device__ void add(const std::uint32_t (&w)[kDigits][4], std::uint64_t digits) {
    ptx::wgmma_m64k32<3 * S::kTileM>(high, w[0], digits);
    ptx::wgmma_m64k32<3 * S::kTileM>(middle, w[1], digits);
    ptx::wgmma_m64k32<2 * S::kTileM>(low, w[2], digits);
  }
  __device__ long long of(int i) const {
    return combined(high[i], high[kOne + i] + middle[i], high[2 * kOne + i] + middle[kOne + i] + low[i],
                    middle[2 * kOne + i] + low[kOne + i]);
  }
};

// Sums the products of `k_tiles` k-tiles and releases their stages.
template <typename S>
__device__ inline void multiply_stages(const WgmmaShared<S>& shared, ptx::PipelineState& at, const MathThread<S>& own,
                                       float scale, float scale8, int k_tiles, Sums<S>& sums) {
  const Operands<S> operands(shared, own);
  const ptx::Pipeline pipeline = shared.pipeline();
  std::uint32_t w[2][kDigits][4];
  for (int i = 0; i < k_tiles; ++i, at.advance(S::kStages)) {
    pipeline.wait_full(at);
#pragma unroll
    for (int step = 0; step < kTileK / 32; ++step) {
      float terms[kThreadTerms], terms8[kThreadTerms];
      operands.load_weights(at.stage, step, terms, terms8);
      split_weights(terms, terms8, scale, scale8, w[step % 2]);
      ptx::wgmma_fence();
      sums.add(w[step % 2], operands.digits_of(at.stage, step));
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();  // of the step before, whose digits are overwritten next
      if (step == 0) shared.release(at.previous_stage(S::kStages), i > 0 && own.lane == 0);
    }
  }
  ptx::wgmma_wait_group<0>();
  shared.release(at.previous_stage(S::kStages), own.lane == 0);
}

// Persistent: one tile after another, each stored by the threads that have its sums.
template <typename S>
__device__ inline void multiply_tiles(const Params& p, const TileScheduler<S>& scheduler,
                                      const WgmmaShared<S>& shared) {
  const MathThread<S> own;
  ptx::PipelineState at;
  for (int t = scheduler.tile; t < scheduler.tiles; t += scheduler.step) {
    const WgmmaTile tile = scheduler.at(t);
    const float scale = scale_of_weights(exponent_byte(tile.out, tile.n0 + own.row));
    const float scale8 = scale_of_weights(exponent_byte(tile.out, tile.n0 + own.row + 8));
    Sums<S> sums;
    multiply_stages<S>(shared, at, own, scale, scale8, p.k_tiles, sums);

    // Epilogue
    wait_for_previous_kernel();
    store_tile<S>(p, tile, own, sums, [](const Row& row) { return row.offset; });
  }
}

// Split-K: the CTA's k-tiles of one tile, whose sums are added over the cluster. The first CTA takes the bias of the
// weights out for all.
template <typename S>
__device__ inline void multiply_split(const Params& p, const TileScheduler<S>& scheduler,
                                      const WgmmaShared<S>& shared) {
  const WgmmaTile tile = scheduler.at(0);
  const MathThread<S> own;
  ptx::PipelineState at;
  const int n = tile.n0 + own.row;
  const float scale = scale_of_weights(exponent_byte(tile.out, n));
  const float scale8 = scale_of_weights(exponent_byte(tile.out, n + 8));
  load_epilogue_state<S>(p, tile, shared.state());
  Sums<S> sums;
  multiply_stages<S>(shared, at, own, scale, scale8, scheduler.end - scheduler.begin, sums);
  exchange_sums<S>(p, tile, shared, own, sums, [](const Row& row) { return blockIdx.x == 0 ? row.offset : 0; });
}

// Bits: equal reference::linear_exact1. Grid: any number of persistent CTAs, else clusters of p.splits CTAs, one for
// each tile.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_wgmma(const __grid_constant__ Params p) {
  // Shared memory: stages, then SharedState
  extern __shared__ __align__(1024) unsigned char memory[];  // the swizzle goes by address
  const WgmmaShared<S> shared(memory);
  const TileScheduler<S> scheduler(p);
  run_roles<S>(p, scheduler, shared, [&] {
    if constexpr (S::kPersistent)
      multiply_tiles<S>(p, scheduler, shared);
    else
      multiply_split<S>(p, scheduler, shared);
  });
}

template <typename W, WgmmaShape kShape>
Kernel kernel(const char* name, Cost cost) {
  using S = Wgmma<W, kShape>;
  Kernel found = wgmma_kernel<S>(name, cost, kMaxKTiles);
  found.function = reinterpret_cast<const void*>(&linear_wgmma<S>);
  return found;
}

// Costs as an H200 showed them.
template <typename W>
std::vector<Kernel> table() {
  return {
      kernel<W, WgmmaShape{.tile_m = 8, .warpgroups = 1, .stages = 3, .ctas_per_sm = 3}>("wgmma 8x64, three CTAs",
                                                                                         {.k_tile = 1.13, .start = 11}),
      kernel<W, WgmmaShape{.tile_m = 8, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>("wgmma 8x128",
                                                                                         {.k_tile = 1, .start = 8}),
      kernel<W, WgmmaShape{.tile_m = 8, .warpgroups = 3, .stages = 4, .ctas_per_sm = 1}>("wgmma 8x192",
                                                                                         {.k_tile = 1.35, .start = 8}),
      kernel<W, WgmmaShape{.tile_m = 16, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>("wgmma 16x128",
                                                                                          {.k_tile = 1.1, .start = 8}),
      kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>(
          "wgmma 32x128", {.k_tile = 1.25, .start = 10}),
      kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1, .persistent = true}>(
          "wgmma 32x128, many tiles", {.k_tile = 1.2, .start = 10}),
      kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 3, .stages = 3, .ctas_per_sm = 1}>(
          "wgmma 32x192", {.k_tile = 2.05, .start = 5.9}),
      kernel<W, WgmmaShape{.tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1, .math_registers = 240}>(
          "wgmma 64x128", {.k_tile = 1.6, .start = 9}),
      kernel<
          W,
          WgmmaShape{
              .tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1, .math_registers = 240, .persistent = true}>(
          "wgmma 64x128, many tiles", {.k_tile = 1.6, .start = 9.2})};
}

}  // namespace

std::vector<Kernel> wgmma_kernels(DType dtype, bool) {
  if (dtype == DType::kBF16) return table<Bf16Weight>();
  if (dtype == DType::kF16) return table<F16Weight>();
  return {};
}

}  // namespace reprofuse::cuda::exact1
