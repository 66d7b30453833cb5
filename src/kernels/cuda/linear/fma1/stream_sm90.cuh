// Few rows, on compute capability 9.0 and later, warp-specialised: TMA warps stream both operands through shared memory
// in their own formats, ahead of warps that do nothing but multiply. A lane owns lane_n weight rows, 32 apart, and
// lane_m rows of x, which all lanes of its warp read alike.
#pragma once

#include "kernels/cuda/element_types.cuh"
#include "kernels/cuda/linear/fma1/epilogue.cuh"
#include "kernels/cuda/ptx/pipeline_sm90.cuh"
#include "kernels/cuda/ptx/sm90.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sm_limits.hpp"
#include "numerics/fma1.hpp"

namespace reprofuse::cuda::fma1 {

struct StreamShape {
  int lane_m, lane_n;    // outputs of a lane
  int warps_m, warps_n;  // math warps of a set: those of a column share weight rows, those of a row share rows of x
  int sets;              // of warps, which take segments in turn, each with a pipeline and a TMA warp of its own
  int ctas_per_sm;       // that the registers must be few enough for
};

// With one set of warps, a CTA can also own a single segment (split-K).
template <typename W_, StreamShape kShape>
struct Stream {
  using W = W_;
  static constexpr int kM = kShape.lane_m, kN = kShape.lane_n, kWarpsM = kShape.warps_m, kSets = kShape.sets;
  static constexpr int kCtasPerSm = kShape.ctas_per_sm;
  static constexpr int kTileM = kM * kWarpsM, kTileN = kWarp * kN * kShape.warps_n;
  static constexpr int kTileK = kBoxRowBytes / sizeof(typename W::Bits);
  static constexpr int kVectors = kBoxRowBytes / 16;       // of a weight row in a stage
  static constexpr int kWarps = kWarpsM * kShape.warps_n;  // of a set, that multiply
  static constexpr int kThreads = kWarp * (kWarps + 1) * kSets;
  static constexpr int kWeightBytes = kTileN * kBoxRowBytes, kXBytes = kTileM * kTileK * 4;
  static constexpr int kStageBytes = kSets * (kWeightBytes + kXBytes);
  static constexpr int kBarrierBytes = kSets * (ptx::Pipeline::barrier_bytes(kMaxStages) + 8 * kWarps);
  static constexpr int kTotalBytes = kTileM * kTileN * 4;
  static constexpr int kUnroll = kM * kN <= 16 ? 2 : 1;  // more would leave the instruction cache

  // Chains, two vectors of each weight row, four widened terms of it, and four terms of two rows of x.
  static constexpr int kLiveRegisters = kM * kN + 2 * 4 * kN + 4 * kN + 2 * 4;
  static_assert(kLiveRegisters + 24 <= registers_per_thread(kThreads, kCtasPerSm),
                "a lane's operands and some 24 registers of addresses must fit what ctas_per_sm CTAs leave a thread");
  static_assert(fits_shared(kBarrierBytes + kMinStages * kStageBytes, kCtasPerSm, kSmSharedBytesSm90),
                "ctas_per_sm CTAs of one segment each must find room for the fewest stages");
  static_assert(fits_shared(kBarrierBytes + kMinStages * kStageBytes + kTotalBytes, 1, kSmSharedBytesSm90),
                "a CTA that folds segments must find room for its totals, too");
  static_assert(kTileN % kBoxRows == 0, "a stage is made of whole boxes of weights");
  static_assert(kSegment % kTileK == 0, "a k-tile must not straddle two segments");
  static_assert(kXBytes % 128 == 0, "the TMA wants 128-byte alignment");
  static_assert(kM % 2 == 0, "rows of x are multiplied in pairs");
};

// The CTA's shared memory, as the warps of one set see it. Addresses are worked out where they are needed: registers
// are scarce, and a stage is long.
template <typename S>
struct StreamShared {
  unsigned char* memory;
  int stages;  // of each set
  int set;

  // kTileN weight rows of kBoxRowBytes, swizzled by the TMA within 8 rows.
  __device__ unsigned char* w(int stage) const { return memory + among_all(stage) * S::kWeightBytes; }
  // [kTileM][kTileK]
  __device__ float* x(int stage) const {
    return reinterpret_cast<float*>(memory + all_stages() * S::kWeightBytes + among_all(stage) * S::kXBytes);
  }
  __device__ ptx::Pipeline pipeline() const { return {barriers(), all_stages(), set * stages}; }
  // The lanes of a warp of some set have left their totals for the next set.
  __device__ std::uint64_t* folded_barrier(int by_set, int warp) const {
    return barriers() + 2 * all_stages() + by_set * S::kWarps + warp;
  }
  // [kM * kN][kWarps * 32]
  __device__ float* totals() const {
    return reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(barriers()) + S::kBarrierBytes);
  }

  __device__ void init_barriers() const {
    pipeline().init(1, S::kWarps);
    for (int warp = 0; warp < S::kSets * S::kWarps; ++warp) ptx::mbarrier_init(folded_barrier(0, warp), kWarp);
    ptx::fence_mbarrier_init();
  }

 private:
  __device__ int all_stages() const { return S::kSets * stages; }
  __device__ int among_all(int stage) const { return set * stages + stage; }
  __device__ std::uint64_t* barriers() const {
    return reinterpret_cast<std::uint64_t*>(memory + all_stages() * (S::kWeightBytes + S::kXBytes));
  }
};

// The segments of a set: from `first`, kSets apart, before `end`.
template <typename S>
struct Segments {
  int first, end;

  __device__ Segments(const Params& p, int set) {
    first = p.split_k ? blockIdx.z : set;
    end = p.split_k ? blockIdx.z + 1 : ceil_div(p.k, kSegment);
  }

  // Where the set's t-th k-tile begins; p.k or more: there are no more.
  __device__ int tile_begin(const Params& p, int t) const {
    constexpr int kTiles = kSegment / S::kTileK;
    const int segment = first + t / kTiles * S::kSets;
    return segment < end ? segment * kSegment + t % kTiles * S::kTileK : p.k;
  }
};

// The TMA warp of a set keeps its stages filled. What lies outside a matrix comes as zeros: their results are not
// stored, and terms beyond k are not multiplied.
template <typename S>
__device__ inline void load_stages(const Params& p, const Output& out, const Segments<S>& segments,
                                   const StreamShared<S>& shared, int m0, int n0) {
  const int lane = threadIdx.x % kWarp;
  const auto load_weights = [&](int stage, int k) {
    std::uint64_t* full = shared.pipeline().full_barrier(stage);
    if (lane == 0) ptx::mbarrier_arrive_expect_tx(full, S::kWeightBytes + S::kXBytes);
    __syncwarp();
    if (lane < S::kTileN / kBoxRows)
      ptx::tma_load_2d(shared.w(stage) + lane * kBoxRows * kBoxRowBytes, &out.map, k, n0 + lane * kBoxRows, full);
  };
  const auto load_x = [&](int stage, int k) {
    if (lane == 0) ptx::tma_load_2d(shared.x(stage), &p.x_map, k, m0, shared.pipeline().full_barrier(stage));
  };

  // Prologue: weights are constants, so the first of them are loaded before the kernel that makes x has finished.
  const int stages = shared.stages;
  for (int t = 0; t < stages && segments.tile_begin(p, t) < p.k; ++t) load_weights(t, segments.tile_begin(p, t));
  wait_for_previous_kernel();
  for (int t = 0; t < stages && segments.tile_begin(p, t) < p.k; ++t) load_x(t, segments.tile_begin(p, t));

  // Main loop: a stage is filled again as soon as all math warps of the set have released it.
  ptx::PipelineState at;  // of the producer in its second turn: the first was the prologue
  for (int t = stages; segments.tile_begin(p, t) < p.k; ++t) {
    const int k = segments.tile_begin(p, t);
    shared.pipeline().wait_empty(at);
    load_weights(at.stage, k);
    load_x(at.stage, k);
    at.advance(stages);
  }
}

// One vector of k: the chains advance in ascending k, four terms at a time for two rows of x. They are independent, and
// the compiler takes them row by row; other orders in the source were no faster.
template <typename S>
__device__ inline void multiply_vector(const uint4 (&w)[S::kN], const float* xs, float (&acc)[S::kM][S::kN]) {
#pragma unroll
  for (int term = 0; term < S::W::kPerVector; term += 4) {
    float wide[4][S::kN];
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int j = 0; j < S::kN; ++j) wide[e][j] = S::W::element(w[j], term + e);
#pragma unroll
    for (int i = 0; i < S::kM; i += 2) {
      uint4 x[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) x[r] = *reinterpret_cast<const uint4*>(xs + (i + r) * S::kTileK + term);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int j = 0; j < S::kN; j += 2) {
          const auto advance = [&](int r, int c) {
            if (c < S::kN) acc[i + r][c] = __fmaf_rn(F32Weight::element(x[r], e), wide[e][c], acc[i + r][c]);
          };
          const int first = j / 2 % 2;
          advance(first, j);
          advance(first, j + 1);
          advance(1 - first, j + 1);
          advance(1 - first, j);
        }
    }
  }
}

// A lane's weights of one vector of a stage.
template <typename S>
__device__ inline void read_weights(const unsigned char* rows, int vector, uint4 (&w)[S::kN]) {
  const int place = (vector ^ (threadIdx.x & 7)) << 4;
#pragma unroll
  for (int j = 0; j < S::kN; ++j) w[j] = *reinterpret_cast<const uint4*>(rows + j * kWarp * kBoxRowBytes + place);
}

// The first `terms` terms of a stage. In a whole one, weights are read while the vector before is multiplied.
template <typename S>
__device__ inline void multiply_stage(const unsigned char* rows, const float* xs, int terms,
                                      float (&acc)[S::kM][S::kN]) {
  uint4 w[S::kN];
  if (terms >= S::kTileK) {
    read_weights<S>(rows, 0, w);
#pragma unroll S::kUnroll
    for (int v = 0; v < S::kVectors; ++v) {
      uint4 next[S::kN];
      read_weights<S>(rows, (v + 1) % S::kVectors, next);
      multiply_vector<S>(w, xs + v * S::W::kPerVector, acc);
#pragma unroll
      for (int j = 0; j < S::kN; ++j) w[j] = next[j];
    }
  } else {
#pragma unroll 1
    for (int v = 0; v * S::W::kPerVector < terms; ++v) {
      read_weights<S>(rows, v, w);
      multiply_vector<S>(w, xs + v * S::W::kPerVector, acc);
    }
  }
}

// Adds a finished segment to the total of those before it, which the set before this one has left, and leaves it to the
// next; the last one stays in acc.
template <typename S>
__device__ inline void fold_segment(const StreamShared<S>& shared, int segment, bool last, int warp,
                                    float (&acc)[S::kM][S::kN]) {
  const int lane = threadIdx.x % kWarp;
  if (S::kSets > 1 && segment > 0)
    ptx::mbarrier_wait(shared.folded_barrier((segment - 1) % S::kSets, warp), (segment - 1) / S::kSets & 1);
#pragma unroll
  for (int i = 0; i < S::kM; ++i)
#pragma unroll
    for (int j = 0; j < S::kN; ++j) {
      float& total = shared.totals()[((i * S::kN + j) * S::kWarps + warp) * kWarp + lane];
      if (segment > 0) acc[i][j] = __fadd_rn(total, acc[i][j]);
      if (last) continue;
      total = acc[i][j];
      acc[i][j] = 0.0f;
    }
  if (S::kSets > 1 && !last) ptx::mbarrier_arrive(shared.folded_barrier(segment % S::kSets, warp));
}

// A math warp: its rows of x and of weights, through the set's segments.
template <typename S>
__device__ inline void multiply_stages(const Params& p, const Output& out, const Segments<S>& segments,
                                       const StreamShared<S>& shared, int warp, int m0, int n0) {
  const int lane = threadIdx.x % kWarp;
  const int m = warp % S::kWarpsM * S::kM, n = warp / S::kWarpsM * S::kN * kWarp + lane;
  const int all_segments = ceil_div(p.k, kSegment);
  float acc[S::kM][S::kN] = {};
  ptx::PipelineState at;
  wait_for_previous_kernel();
#pragma unroll 1
  for (int segment = segments.first; segment < segments.end; segment += S::kSets) {
    // Main loop: the chains of one segment.
    const int k_end = min(p.k, (segment + 1) * kSegment);
#pragma unroll 1
    for (int k = segment * kSegment; k < k_end; k += S::kTileK) {
      shared.pipeline().wait_full(at);
      multiply_stage<S>(shared.w(at.stage) + n * kBoxRowBytes, shared.x(at.stage) + m * S::kTileK, k_end - k, acc);
      __syncwarp();
      if (lane == 0) shared.pipeline().release(at.stage);
      at.advance(shared.stages);
    }

    // Epilogue: fold the segment; after the last one, store.
    const bool last = p.split_k || segment + 1 == all_segments;
    if (!p.split_k && all_segments > 1) fold_segment<S>(shared, segment, last, warp, acc);
    if (!last) continue;
#pragma unroll
    for (int i = 0; i < S::kM; ++i)
#pragma unroll
      for (int j = 0; j < S::kN; ++j) store(p, out, m0 + m + i, n0 + n + j * kWarp, acc[i][j]);
  }
}

// Bits: equal reference::linear_fma1. Grid: tiles of rows, tiles of columns of all outputs, segments of a split-K.
template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kCtasPerSm) void linear_stream(const __grid_constant__ Params p) {
#if __CUDA_ARCH__ >= 900
  // Shared memory: stages of weights, stages of x, barriers, totals
  extern __shared__ __align__(1024) unsigned char stages[];  // what the swizzle repeats after
  const int warp = threadIdx.x / kWarp % (S::kWarps + 1), set = threadIdx.x / kWarp / (S::kWarps + 1);
  const StreamShared<S> shared{stages, p.stages, set};

  // Initialize barriers
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  let_next_kernel_start();

  // The CTA's tile
  const Output& out = p.outputs[output_index_of_tile(p, blockIdx.y)];
  const int n0 = (blockIdx.y - out.first_tile) * S::kTileN, m0 = blockIdx.x * S::kTileM;
  const Segments<S> segments(p, set);
  if (warp == S::kWarps)
    load_stages<S>(p, out, segments, shared, m0, n0);  // TMA warp
  else
    multiply_stages<S>(p, out, segments, shared, warp, m0, n0);  // Math warps
#endif
}

}  // namespace reprofuse::cuda::fma1
