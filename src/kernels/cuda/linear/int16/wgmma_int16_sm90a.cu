// int16-1 on compute capability 9.0, sm_90a alone: a producer thread keeps TMA loads of weights and digits in flight,
// warpgroups turn weights into digits in registers and multiply them by the activations' digits in shared memory. Sums
// of a block of terms are 32-bit integers; after each block they go to their place in totals of 64 bits.
#include "kernels/cuda/linear/int16/wgmma_sums_sm90a.cuh"

namespace reprofuse::cuda::int16 {
namespace {

// Sums the products of k-tiles `begin` to `end`, block by block, and releases their stages.
template <typename S>
__device__ inline void multiply_stages(const WgmmaShared<S>& shared, const WgmmaTile& tile, ptx::PipelineState& at,
                                       const MathThread<S>& own, int begin, int end, Sums<S>& sums) {
  const Operands<S> operands(shared, own);
  const float inverse = inverse_unit(exponent_byte(tile.out, tile.n0 + own.row));
  const float inverse8 = inverse_unit(exponent_byte(tile.out, tile.n0 + own.row + 8));
  const ptx::Pipeline pipeline = shared.pipeline();
  std::uint32_t w[2][kDigits][4];
  for (int k_tile = begin; k_tile < end;) {
    const int first = k_tile, block_end = min(end, (k_tile / kBlockTiles + 1) * kBlockTiles);
    int stage;
#pragma unroll 1
    do {
      pipeline.wait_full(at);
      stage = at.stage;
#pragma unroll
      for (int step = 0; step < kTileK / 32; ++step) {
        float terms[kThreadTerms], terms8[kThreadTerms];
        operands.load_weights(stage, step, terms, terms8);
        split_weights(terms, terms8, inverse, inverse8, w[step % 2]);
        ptx::wgmma_fence();
        sums.add(w[step % 2], operands.digits_of(stage, step), step == 0 && k_tile == first);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();  // of the step before, whose digits are overwritten next
        if (step == 0) shared.release(at.previous_stage(S::kStages), k_tile != first && own.lane == 0);
      }
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
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_wgmma(const __grid_constant__ Params p) {
  // Shared memory: stages, then SharedState
  extern __shared__ __align__(1024) unsigned char memory[];  // the swizzle goes by address
  const WgmmaShared<S> shared(memory);
  const TileScheduler<S> scheduler(p);
  run_roles<S>(p, scheduler, shared, [&] {
    const auto multiply = [&](const WgmmaTile& tile, auto& at, const auto& own, auto& sums) {
      multiply_stages<S>(shared, tile, at, own, scheduler.begin, scheduler.end, sums);
    };
    if constexpr (S::kPersistent)
      multiply_tiles<S>(p, scheduler, multiply);
    else
      multiply_split<S>(p, scheduler, shared, multiply);
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
                                                                                          {.k_tile = 1.05, .start = 8}),
      kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>("wgmma 32x128",
                                                                                          {.k_tile = 1.15, .start = 9}),
      kernel<W, WgmmaShape{.tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1, .math_registers = 232}>(
          "wgmma 64x128", {.k_tile = 1.3, .start = 9}),
      kernel<
          W,
          WgmmaShape{
              .tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1, .math_registers = 232, .persistent = true}>(
          "wgmma 64x128, many tiles", {.k_tile = 1.3, .start = 9}),
      kernel<
          W,
          WgmmaShape{
              .tile_m = 96, .warpgroups = 2, .stages = 3, .ctas_per_sm = 1, .math_registers = 232, .persistent = true}>(
          "wgmma 96x128, many tiles", {.k_tile = 1.6, .start = 9})};
}

// All that take digits of weights.
std::vector<Kernel> digit_kernels(bool digits_in_place) {
  std::vector<Kernel> kernels = prepared_kernels(digits_in_place);
  for (const Kernel& kernel : rounds_kernels()) kernels.push_back(kernel);
  return kernels;
}

}  // namespace

std::vector<Kernel> wgmma_kernels(DType dtype, bool digits_in_place) {
  if (digits_in_place) {
    std::vector<Kernel> kernels = digit_kernels(digits_in_place);
    for (Kernel& kernel : kernels) kernel.digits_in_place = true;
    return kernels;
  }
  std::vector<Kernel> kernels = dtype == DType::kBF16  ? table<Bf16Weight>()
                                : dtype == DType::kF16 ? table<F16Weight>()
                                                       : std::vector<Kernel>();
  for (const Kernel& kernel : digit_kernels(digits_in_place))
    if (kernel.cost.prepare > 0) kernels.push_back(kernel);
  return kernels;
}

}  // namespace reprofuse::cuda::int16
