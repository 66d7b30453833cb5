// exact-1 on compute capability 9.0: one thread keeps TMA loads of weights and digits in flight, warpgroups turn
// weights into digits in registers and multiply them by the activations' digits in shared memory. A tile is some rows
// of x against some weight rows. CTAs that share the K of a tile form a cluster and add their sums through each other's
// shared memory; where tiles are many, persistent CTAs that have all of K take one after another.
// Built for sm_90a alone: the instructions exist nowhere else.
#include "kernels/cuda/linear/exact1/schedule.hpp"
#include "kernels/cuda/linear/exact1/wgmma_pipeline_sm90a.cuh"
#include "kernels/cuda/ptx/cluster.cuh"

namespace reprofuse::cuda::exact1 {
namespace {

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
  __device__ int of(int c, int i) const { return classes[c][i]; }
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
  __device__ int of(int c, int i) const {
    if (c == 0) return high[i];
    if (c == 1) return high[kOne + i] + middle[i];
    if (c == 2) return high[2 * kOne + i] + middle[kOne + i] + low[i];
    return middle[2 * kOne + i] + low[kOne + i];
  }
};

template <typename W>
__device__ inline void load_terms(const unsigned char* shared, float (&terms)[kThreadTerms]) {
  const uint4 vector = *reinterpret_cast<const uint4*>(shared);
#pragma unroll
  for (int i = 0; i < kThreadTerms; ++i) terms[i] = W::element(vector, i);
}

// Where a math thread stands: rows `row` and `row` + 8 of the tile's weights.
template <typename S>
struct MathThread {
  int lane = threadIdx.x % kWarp;
  int group = threadIdx.x / kWarpgroup;
  int row = threadIdx.x / kWarp * 16 + lane / 4;
};

// Keeps a value in a register where the compiler would rather compute it again in every turn of a loop.
__device__ inline int kept(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Sums the products of `k_tiles` k-tiles and releases their stages.
template <typename S>
__device__ inline void multiply_stages(const WgmmaShared<S>& shared, ptx::PipelineState& at, const MathThread<S>& own,
                                       float scale, float scale8, int k_tiles, Sums<S>& sums) {
  using Descriptor = ptx::SharedMemoryDescriptor;
  const int box_row = own.row % kWarpgroupRows;  // and eight rows on, which are swizzled alike
  const int swizzled = (first_term(0, own.lane % 4) / 8 ^ box_row % 8) * 16;
  const int vector = kept(own.group * (kTileK / kBoxTerms * S::kBoxBytes) + box_row * (kBoxTerms * 2) + swizzled);
  const std::uint64_t first_digits = Descriptor{.start_address = ptx::shared_address(shared.digits(0)),
                                                .leading_byte_offset = Descriptor::kCoreMatrixBytes,
                                                .stride_byte_offset = kTileK * 8}
                                         .word();
  const ptx::Pipeline pipeline = shared.pipeline();
  std::uint32_t w[2][kDigits][4];
  for (int i = 0; i < k_tiles; ++i, at.advance(S::kStages)) {
    pipeline.wait_full(at);
    const std::uint64_t digits = first_digits + at.stage * Descriptor::advance(S::kStageBytes);
#pragma unroll
    for (int step = 0; step < kTileK / 32; ++step) {
      // Steps come in pairs that share a box; the second takes the neighbouring vector.
      const unsigned char* from = shared.weights(at.stage) + step / 2 * S::kBoxBytes + (vector ^ step % 2 * 16);
      float terms[kThreadTerms], terms8[kThreadTerms];
      load_terms<typename S::W>(from, terms);
      load_terms<typename S::W>(from + 8 * kBoxTerms * 2, terms8);
      split_weights(terms, terms8, scale, scale8, w[step % 2]);
      ptx::wgmma_fence();
      sums.add(w[step % 2], digits + step * Descriptor::advance(2 * Descriptor::kCoreMatrixBytes));
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();  // of the step before, whose digits are overwritten next
      if (step == 0 && i > 0 && own.lane == 0) pipeline.release(at.previous_stage(S::kStages));
    }
  }
  ptx::wgmma_wait_group<0>();
  if (own.lane == 0) pipeline.release(at.previous_stage(S::kStages));
}

// Calls take(m, n, sum) for each of the thread's sums, m and n within the tile.
template <typename S, typename Take>
__device__ inline void for_each_sum(const MathThread<S>& own, const Sums<S>& sums, const Take& take) {
#pragma unroll
  for (int i = 0; i < S::kTileM / 2; ++i)
    take(i / 4 * 8 + own.lane % 4 * 2 + i % 2, own.row + i % 4 / 2 * 8,
         combined(sums.of(0, i), sums.of(1, i), sums.of(2, i), sums.of(3, i)));
}

// Two neighbouring sums over the CTAs of the cluster, all on their way at once.
__device__ inline longlong2 sum_of_cluster(const Params& p, const long long* shown) {
  longlong2 sum = *reinterpret_cast<const longlong2*>(shown);
  if (p.splits == 1) return sum;
  longlong2 others[kMaxSplits - 1];
#pragma unroll
  for (int i = 0; i < kMaxSplits - 1; ++i) {
    const unsigned rank = blockIdx.x + 1 + i;
    others[i] =
        i < p.splits - 1 ? ptx::ld_shared_cluster(shown, rank < p.splits ? rank : rank - p.splits) : longlong2{0, 0};
  }
#pragma unroll
  for (const longlong2& other : others) {
    sum.x += other.x;
    sum.y += other.y;
  }
  return sum;
}

// Adds up the sums that the CTAs of the cluster show and stores the results: every so many rows of the tile in each
// CTA, two neighbouring columns in each thread.
template <typename S>
__device__ inline void store_rows_of_cluster(const Params& p, const Tile& tile, const WgmmaShared<S>& shared) {
  constexpr int kPairs = S::kTileN / 2, kRows = S::kMathThreads / kPairs;
  const SharedState<S>& state = shared.state();
  const int n = threadIdx.x % kPairs * 2, left = tile.out.n - tile.n0 - n;  // columns
  if (left <= 0) return;
  const int rows = min(p.m - tile.m0, S::kTileM);
  const auto* shown = reinterpret_cast<const long long*>(shared.memory) + n;
  const Column first(tile.out, tile.n0 + n, state.exponents[n]);
  const Column second(tile.out, tile.n0 + n + 1, state.exponents[n + 1]);
  const bool together = left > 1 && stores_pairs(tile.out);
  for (int m = blockIdx.x + threadIdx.x / kPairs * p.splits; m < rows; m += kRows * p.splits) {
    const longlong2 sum = sum_of_cluster(p, shown + m * S::kSumPitch);
    const float y = rounded(p, tile.out, tile.m0 + m, first, state.rows[m], sum.x);
    const float y1 = left > 1 ? rounded(p, tile.out, tile.m0 + m, second, state.rows[m], sum.y) : 0.0f;
    float* to = tile.out.y + (tile.m0 + m) * tile.out.y_stride + tile.n0 + n;
    if (together) {
      *reinterpret_cast<float2*>(to) = make_float2(y, y1);
    } else {
      to[0] = y;
      if (left > 1) to[1] = y1;
    }
  }
}

// Persistent: one tile after another, each stored by the threads that have its sums.
template <typename S>
__device__ inline void multiply_tiles(const Params& p, const TileScheduler<S>& scheduler,
                                      const WgmmaShared<S>& shared) {
  const MathThread<S> own;
  ptx::PipelineState at;
  for (int t = scheduler.tile; t < scheduler.tiles; t += scheduler.step) {
    const Tile tile = scheduler.at(t);
    const Column column(tile.out, tile.n0 + own.row), column8(tile.out, tile.n0 + own.row + 8);
    Sums<S> sums;
    multiply_stages<S>(shared, at, own, weight_scale(column.exponent), weight_scale(column8.exponent), p.k_tiles, sums);

    // Epilogue
    wait_for_previous_kernel();
    const Row* rows = p.rows + tile.m0;
    for_each_sum<S>(own, sums, [&](int m, int n, long long sum) {
      if (tile.m0 + m < p.m && tile.n0 + n < tile.out.n)
        store_result(p, tile.out, tile.m0 + m, n == own.row ? column : column8, rows[m], sum - rows[m].offset);
    });
  }
}

// What store_rows_of_cluster() needs to know of the tile's rows and columns, read while there is time. The first CTA
// takes the bias of the weights out for all.
template <typename S>
__device__ inline void load_epilogue_state(const Params& p, const Tile& tile, SharedState<S>& state) {
  const int i = threadIdx.x;
  if (i < S::kTileN) state.exponents[i] = exponent_of(tile.out, tile.n0 + i);
  wait_for_previous_kernel();
  if (i >= S::kTileM || tile.m0 + i >= p.m) return;
  Row row = p.rows[tile.m0 + i];
  if (blockIdx.x != 0) row.offset = 0;
  state.rows[i] = row;
}

// The math threads alone; barrier 0 is __syncthreads().
template <typename S>
__device__ inline void sync_math_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(S::kMathThreads) : "memory");
}

// Split-K: the CTA's share of one tile, shown to the cluster; then its part of the results.
template <typename S>
__device__ inline void multiply_share(const Params& p, const TileScheduler<S>& scheduler,
                                      const WgmmaShared<S>& shared) {
  const Tile tile = scheduler.at(0);
  const MathThread<S> own;
  ptx::PipelineState at;
  const int n = tile.n0 + own.row;
  const float scale = weight_scale(exponent_of(tile.out, n)), scale8 = weight_scale(exponent_of(tile.out, n + 8));
  load_epilogue_state<S>(p, tile, shared.state());
  Sums<S> sums;
  multiply_stages<S>(shared, at, own, scale, scale8, scheduler.end - scheduler.begin, sums);

  // Epilogue: the sums take the place of the stages
  sync_math_threads<S>();
  auto* shown = reinterpret_cast<long long*>(shared.memory);
  for_each_sum<S>(own, sums, [&](int m, int column, long long sum) {
    asm volatile("st.shared.s64 [%0], %1;" ::"r"(ptx::shared_address(shown + m * S::kSumPitch + column)),
                 "l"(sum - shared.state().rows[m].offset)
                 : "memory");
  });
  __syncthreads();  // with the producer, which meets the cluster too
  if (p.splits > 1) ptx::cluster_sync();
  store_rows_of_cluster<S>(p, tile, shared);
  if (p.splits > 1) ptx::cluster_sync();  // no CTA may go while another reads from it
}

// The producer's part in the epilogue of multiply_share(): it has nothing to store, but no barrier may miss it.
__device__ inline void meet_math_threads(const Params& p) {
  __syncthreads();
  if (p.splits == 1) return;
  ptx::cluster_sync();
  ptx::cluster_sync();
}

// Bits: equal reference::linear_exact1. Grid: any number of persistent CTAs, else clusters of p.splits CTAs, one for
// each tile.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_wgmma(const __grid_constant__ Params p) {
  // Shared memory: stages, then SharedState
  extern __shared__ __align__(1024) unsigned char memory[];  // the swizzle goes by address
  const WgmmaShared<S> shared(memory);
  const TileScheduler<S> scheduler(p);

  // Initialize barriers
  if (threadIdx.x == 0) {
    shared.pipeline().init(1, S::kMathThreads / kWarp);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= S::kMathThreads) {
    // TMA thread
    if constexpr (S::kMoveRegisters) ptx::setmaxnreg_dec<S::kProducerRegisters>();
    if (threadIdx.x == S::kMathThreads) load_stages<S>(p, scheduler, shared);
    wait_for_previous_kernel();
    __syncwarp();
    if constexpr (!S::kPersistent) meet_math_threads(p);
  } else {
    // Math warpgroups
    if constexpr (S::kMoveRegisters) ptx::setmaxnreg_inc<S::kMathRegisters>();
    if constexpr (S::kPersistent)
      multiply_tiles<S>(p, scheduler, shared);
    else
      multiply_share<S>(p, scheduler, shared);
  }
}

template <typename W, WgmmaShape kShape>
Kernel kernel(const char* name, Cost cost) {
  using S = Wgmma<W, kShape>;
  return {.name = name,
          .function = reinterpret_cast<const void*>(&linear_wgmma<S>),
          .tile_m = S::kTileM,
          .tile_n = S::kTileN,
          .threads = S::kThreads,
          .shared_bytes = WgmmaShared<S>::kBytes,
          .vector_loads = true,
          .exchange = S::kPersistent ? Exchange::kNone : Exchange::kCluster,
          .cost = cost};
}

// Costs as an H200 showed them.
template <typename W>
std::vector<Kernel> table() {
  return {kernel<W, WgmmaShape{.tile_m = 8, .warpgroups = 1, .stages = 3, .ctas_per_sm = 3}>(
              "wgmma 8x64, three blocks", {.k_tile = 1.13, .start = 11}),
          kernel<W, WgmmaShape{.tile_m = 8, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>("wgmma 8x128",
                                                                                             {.k_tile = 1, .start = 8}),
          kernel<W, WgmmaShape{.tile_m = 8, .warpgroups = 3, .stages = 4, .ctas_per_sm = 1}>(
              "wgmma 8x192", {.k_tile = 1.35, .start = 8}),
          kernel<W, WgmmaShape{.tile_m = 16, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>(
              "wgmma 16x128", {.k_tile = 1.1, .start = 8}),
          kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1}>(
              "wgmma 32x128", {.k_tile = 1.25, .start = 10}),
          kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 2, .stages = 5, .ctas_per_sm = 1, .persistent = true}>(
              "wgmma 32x128, many tiles", {.k_tile = 1.2, .start = 10}),
          kernel<W, WgmmaShape{.tile_m = 32, .warpgroups = 3, .stages = 3, .ctas_per_sm = 1}>(
              "wgmma 32x192", {.k_tile = 2.05, .start = 5.9}),
          kernel<W, WgmmaShape{.tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1}>(
              "wgmma 64x128", {.k_tile = 1.6, .start = 9}),
          kernel<W, WgmmaShape{.tile_m = 64, .warpgroups = 2, .stages = 4, .ctas_per_sm = 1, .persistent = true}>(
              "wgmma 64x128, many tiles", {.k_tile = 1.6, .start = 9.2})};
}

}  // namespace

std::vector<Kernel> wgmma_kernels(DType dtype) {
  if (dtype == DType::kBF16) return table<Bf16Weight>();
  if (dtype == DType::kF16) return table<F16Weight>();
  return {};
}

}  // namespace reprofuse::cuda::exact1
