// Few rows, on compute capability 9.0 and later: the copy engine streams both operands through shared memory in their
// own formats, ahead of warps that do nothing but multiply. A lane owns kN weight rows, 32 apart, and kM rows of x,
// which all lanes of its warp read alike.
#pragma once

#include "kernels/cuda/linear/fma1/params.cuh"
#include "kernels/cuda/linear/weight_types.cuh"
#include "kernels/cuda/ptx/hopper.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "numerics/order.hpp"

namespace reprofuse::cuda::fma1 {

// kGroups warps share the weight rows of a stream, and kStreams of them the rows of x. kSets such sets take segments in
// turn, each with a ring of stages and one more warp to fill it; with one set, a block can also own a single segment.
// Registers are few enough for kResident blocks on a multiprocessor.
template <typename W_, int kM_, int kGroups_, int kN_, int kStreams_, int kSets_, int kResident_>
struct StreamShape {
  using W = W_;
  static constexpr int kM = kM_, kGroups = kGroups_, kN = kN_, kStreams = kStreams_, kSets = kSets_;
  static constexpr int kResident = kResident_;
  static constexpr int kTileM = kM * kGroups, kTileN = 32 * kN * kStreams;
  static constexpr int kTileK = kBoxRowBytes / sizeof(typename W::Bits);
  static constexpr int kVectors = kBoxRowBytes / 16;  // of a weight row in a stage
  static constexpr int kWarps = kGroups * kStreams;   // of a set, that multiply
  static constexpr int kThreads = 32 * (kWarps + 1) * kSets;
  static constexpr int kWeightBytes = kTileN * kBoxRowBytes, kXBytes = kTileM * kTileK * 4;
  static constexpr int kStageBytes = kSets * (kWeightBytes + kXBytes);
  static constexpr int kBarrierBytes = 8 * kSets * (2 * kMostStages + kWarps);
  static constexpr int kTotalBytes = kTileM * kTileN * 4;
  static constexpr int kUnroll = kM * kN <= 16 ? 2 : 1;  // more would leave the instruction cache
  static_assert(kTileN % kBoxRows == 0 && kSegment % kTileK == 0 && kXBytes % 128 == 0 && kM % 2 == 0);
};

// What a set of warps has of the block's shared memory, and how far round its stages it is. Addresses are worked out
// where they are needed: registers are scarce, and a stage is long.
template <typename S>
struct Ring {
  unsigned char* shared;
  int stages;  // of each set
  int set;
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }

  // kTileN weight rows of kBoxRowBytes, vectors swapped within 8 rows by the copy engine.
  __device__ unsigned char* w(int of) const { return shared + slot(of) * S::kWeightBytes; }
  // [kTileM][kTileK]
  __device__ float* x(int of) const {
    return reinterpret_cast<float*>(shared + slots() * S::kWeightBytes + slot(of) * S::kXBytes);
  }
  // All bytes of a stage have come.
  __device__ std::uint64_t* full(int of) const { return barriers() + slot(of); }
  // All warps are done with a stage.
  __device__ std::uint64_t* empty(int of) const { return barriers() + slots() + slot(of); }
  // The lanes of a warp of some set have left their totals for the next set.
  __device__ std::uint64_t* folded(int by_set, int warp) const {
    return barriers() + 2 * slots() + by_set * S::kWarps + warp;
  }
  // [kM * kN][kWarps * 32]
  __device__ float* totals() const {
    return reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(barriers()) + S::kBarrierBytes);
  }

  __device__ void init() const {
    for (int s = 0; s < slots(); ++s) {
      hopper::init_barrier(barriers() + s, 1);
      hopper::init_barrier(barriers() + slots() + s, S::kWarps);
    }
    for (int w = 0; w < S::kSets * S::kWarps; ++w) hopper::init_barrier(folded(0, w), 32);
    hopper::fence_barrier_init();
  }

 private:
  __device__ int slots() const { return S::kSets * stages; }
  __device__ int slot(int of) const { return set * stages + of; }
  __device__ std::uint64_t* barriers() const {
    return reinterpret_cast<std::uint64_t*>(shared + slots() * (S::kWeightBytes + S::kXBytes));
  }
};

// The segments of a set: from `first`, kSets apart, before `end`.
template <typename S>
struct Segments {
  int first, end;

  __device__ Segments(const Params& p, int set) {
    first = p.split ? blockIdx.z : set;
    end = p.split ? blockIdx.z + 1 : ceil_div(p.k, kSegment);
  }

  // Where the set's t-th k-tile begins; p.k or more: there are no more.
  __device__ int tile_begin(const Params& p, int t) const {
    constexpr int kTiles = kSegment / S::kTileK;
    const int segment = first + t / kTiles * S::kSets;
    return segment < end ? segment * kSegment + t % kTiles * S::kTileK : p.k;
  }
};

// One warp keeps the set's ring filled. What lies outside a matrix comes as zeros: their results are not stored, and
// terms beyond k are not multiplied.
template <typename S>
__device__ inline void fill_ring(const Params& p, const Output& out, const Segments<S>& segments, Ring<S> ring, int m0,
                                 int n0) {
  const int lane = threadIdx.x % 32;
  const auto fetch_weights = [&](int stage, int k) {
    if (lane == 0) hopper::arrive_expecting(ring.full(stage), S::kWeightBytes + S::kXBytes);
    __syncwarp();
    if (lane < S::kTileN / kBoxRows)
      hopper::copy_box(ring.w(stage) + lane * kBoxRows * kBoxRowBytes, &out.map, k, n0 + lane * kBoxRows,
                       ring.full(stage));
  };
  const auto fetch_x = [&](int stage, int k) {
    if (lane == 0) hopper::copy_box(ring.x(stage), &p.x_map, k, m0, ring.full(stage));
  };
  // Weights are constants, so the first of them are on their way before the kernel that makes x has finished.
  for (int t = 0; t < ring.stages && segments.tile_begin(p, t) < p.k; ++t) fetch_weights(t, segments.tile_begin(p, t));
  wait_for_previous_kernel();
  for (int t = 0; t < ring.stages && segments.tile_begin(p, t) < p.k; ++t) fetch_x(t, segments.tile_begin(p, t));
  for (int t = ring.stages; segments.tile_begin(p, t) < p.k; ++t) {
    const int k = segments.tile_begin(p, t);
    hopper::wait_phase(ring.empty(ring.stage), ring.parity);
    fetch_weights(ring.stage, k);
    fetch_x(ring.stage, k);
    ring.advance();
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
  for (int j = 0; j < S::kN; ++j) w[j] = *reinterpret_cast<const uint4*>(rows + j * 32 * kBoxRowBytes + place);
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
__device__ inline void fold_segment(const Ring<S>& ring, int segment, bool last, int warp, float (&acc)[S::kM][S::kN]) {
  const int lane = threadIdx.x % 32;
  if (S::kSets > 1 && segment > 0)
    hopper::wait_phase(ring.folded((segment - 1) % S::kSets, warp), (segment - 1) / S::kSets & 1);
#pragma unroll
  for (int i = 0; i < S::kM; ++i)
#pragma unroll
    for (int j = 0; j < S::kN; ++j) {
      float& total = ring.totals()[((i * S::kN + j) * S::kWarps + warp) * 32 + lane];
      if (segment > 0) acc[i][j] = __fadd_rn(total, acc[i][j]);
      if (last) continue;
      total = acc[i][j];
      acc[i][j] = 0.0f;
    }
  if (S::kSets > 1 && !last) hopper::arrive(ring.folded(segment % S::kSets, warp));
}

// A warp's share: its rows of x and of weights, through the set's segments.
template <typename S>
__device__ inline void multiply_ring(const Params& p, const Output& out, const Segments<S>& segments, Ring<S> ring,
                                     int warp, int m0, int n0) {
  const int lane = threadIdx.x % 32;
  const int m = warp % S::kGroups * S::kM, n = warp / S::kGroups * S::kN * 32 + lane;
  const int all_segments = ceil_div(p.k, kSegment);
  float acc[S::kM][S::kN] = {};
  wait_for_previous_kernel();
#pragma unroll 1
  for (int segment = segments.first; segment < segments.end; segment += S::kSets) {
    const int k_end = min(p.k, (segment + 1) * kSegment);
#pragma unroll 1
    for (int k = segment * kSegment; k < k_end; k += S::kTileK) {
      hopper::wait_phase(ring.full(ring.stage), ring.parity);
      multiply_stage<S>(ring.w(ring.stage) + n * kBoxRowBytes, ring.x(ring.stage) + m * S::kTileK, k_end - k, acc);
      __syncwarp();
      if (lane == 0) hopper::arrive(ring.empty(ring.stage));
      ring.advance();
    }
    const bool last = p.split || segment + 1 == all_segments;
    if (!p.split && all_segments > 1) fold_segment<S>(ring, segment, last, warp, acc);
    if (!last) continue;
#pragma unroll
    for (int i = 0; i < S::kM; ++i)
#pragma unroll
      for (int j = 0; j < S::kN; ++j) store(p, out, m0 + m + i, n0 + n + j * 32, acc[i][j]);
  }
}

template <typename S>
__global__ __launch_bounds__(S::kThreads, S::kResident) void linear_stream(const __grid_constant__ Params p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) unsigned char stages[];
  const int warp = threadIdx.x / 32 % (S::kWarps + 1), set = threadIdx.x / 32 / (S::kWarps + 1);
  const Ring<S> ring{stages, p.stages, set};
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  let_next_kernel_start();
  const Output& out = p.outputs[output_of_tile(p, blockIdx.y)];
  const int n0 = (blockIdx.y - out.first_tile) * S::kTileN, m0 = blockIdx.x * S::kTileM;
  const Segments<S> segments(p, set);
  if (warp == S::kWarps)
    fill_ring<S>(p, out, segments, ring, m0, n0);
  else
    multiply_ring<S>(p, out, segments, ring, warp, m0, n0);
#endif
}

}  // namespace reprofuse::cuda::fma1
