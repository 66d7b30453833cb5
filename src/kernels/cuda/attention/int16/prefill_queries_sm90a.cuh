// Prefill by contracts int16-1 and exact-2: the queries of a warpgroup's threads.
#pragma once

#include "kernels/cuda/attention/int16/prefill_loads_sm90a.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace reprofuse::cuda::int16::ops {

using Descriptor = ptx::SharedMemoryDescriptor;

// The threads of one warpgroup; barrier 0 is __syncthreads().
__device__ inline void sync_warpgroup(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + warpgroup), "n"(kWarpgroup) : "memory");
}

// The queries of a math thread, digits as the left operand of a product: rows `lane / 4` and 8 more of its warp. Those
// of long heads lie in shared memory.
template <typename S>
struct Queries {
  using N = typename S::N;
  static constexpr int kSteps = S::kHeadDim / 32, kOwnSteps = S::kQueriesInShared ? 1 : kSteps;
  LeftWords<N, kOwnSteps> digits;
  std::uint64_t descriptor;  // in shared memory
  float factor[2];           // of scores
  int end[2];                // of the keys that a row sees; 0: there is no such query

  __device__ Queries(const AttentionParams& p, const PrefillTile& tile, std::uint8_t* shared) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = first_query() + r * 8;
      end[r] = query < tile.queries() ? tile.position + query / tile.heads.count + 1 : 0;
      snap(p, tile, r, shared);
    }
    if constexpr (S::kQueriesInShared) {
      descriptor = Descriptor{.start_address = ptx::shared_address(shared),
                              .leading_byte_offset = kCoreBytes,
                              .stride_byte_offset = S::kHeadDim * kCoreRows}
                       .word();
      ptx::fence_proxy_async();
      sync_warpgroup(threadIdx.x / kWarpgroup);
    }
  }
  __device__ static int first_query() {
    return threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4;
  }
  __device__ bool exists(int r) const {
    return end[r] > 0;
  }
  __device__ static int row(const PrefillTile& tile, int r) {
    return tile.first_row + (first_query() + r * 8) / tile.heads.count;
  }
  __device__ static int head(const PrefillTile& tile, int r) {
    return tile.heads.first + (first_query() + r * 8) % tile.heads.count;
  }

 private:
  __device__ void snap(const AttentionParams& p, const PrefillTile& tile, int r, std::uint8_t* shared) {
    const float* from = p.q + row(tile, r) * p.q_stride + head(tile, r) * S::kHeadDim + threadIdx.x % 4 * 4;
    float4 q[2 * kSteps];
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      q[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (exists(r))
        q[i] = p.q_aligned ? *reinterpret_cast<const float4*>(from + i * 16)
                           : make_float4(from[i * 16], from[i * 16 + 1], from[i * 16 + 2], from[i * 16 + 3]);
      const float elements[4] = {q[i].x, q[i].y, q[i].z, q[i].w};
#pragma unroll
      for (const float element : elements) largest = max(largest, __float_as_uint(element) & 0x7fffffffu);
    }
    const int unit = N::unit_byte(static_cast<std::uint32_t>(max_of_quad(static_cast<int>(largest))));
    const float inverse = reprofuse::int16::inverse_unit(unit);
    factor[r] = N::score_factor(p.scale, unit);
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const float elements[4] = {q[i].x, q[i].y, q[i].z, q[i].w};
      std::uint32_t integers[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int x = unit == reprofuse::int16::kNotFinite ? 0 : N::snap(elements[e], inverse);
        integers[e] = static_cast<std::uint32_t>(x) + N::kUnsigned;
      }
      const PackedDigits<N> packed(integers);
      if constexpr (S::kQueriesInShared) {
        const int row = threadIdx.x % kWarpgroup / kWarp * 16 + threadIdx.x % kWarp / 4 + r * 8;
        auto* to = reinterpret_cast<std::uint32_t*>(shared + (row / 8 * (S::kHeadDim / 16) + i) * kCoreBytes +
                                                    row % 8 * 16 + threadIdx.x % 4 * 4);
#pragma unroll
        for (int digit = 0; digit < N::kDigits; ++digit) to[digit * (S::kQueryPlaneBytes / 4)] = packed.digits[digit];
      } else {
#pragma unroll
        for (int digit = 0; digit < N::kDigits; ++digit) digits[digit][i / 2][i % 2 * 2 + r] = packed.digits[digit];
      }
    }
  }
};

// The thread's rows before one block of keys, as BlockSoftmax wants to know them.
template <typename S>
struct RowsAtBlock {
  const AttentionParams& p;
  const PrefillTile& tile;
  const Queries<S>& queries;
  int first_key;
  float factor[2];

  __device__ RowsAtBlock(const AttentionParams& params, const PrefillTile& of, const Queries<S>& own, int first_key_)
      : p(params), tile(of), queries(own), first_key(first_key_), factor{own.factor[0], own.factor[1]} {}
  __device__ Visible visible(int r) const {
    const int end = queries.end[r], begin = p.window > 0 ? max(0, end - p.window) : 0;
    return {begin - first_key, end - first_key};
  }
  __device__ void record_if_not_finite(int r, float score) const {
    cuda::record_if_not_finite(p.record, p.op, Queries<S>::row(tile, r), Queries<S>::head(tile, r), score);
  }
  // Warp-uniform: whether all rows see the whole block, and no score can be other than finite.
  __device__ bool whole(const BlockFacts<typename S::N, S::kKeys>& facts) const {
    bool all = true;
    if constexpr (S::N::kFitsWeights) all = facts.largest_value_unit != reprofuse::int16::kNotFinite;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Visible keys = visible(r);
      const float bound = __fmul_rn(__fmul_rn(S::N::kSumBound, facts.largest_key_unit), fabsf(factor[r]));
      all = all && (!queries.exists(r) || (keys.begin <= 0 && keys.end >= S::kKeys)) &&
            __float_as_uint(bound) < 0x7f800000u;
    }
    return __all_sync(~0u, all);
  }
};

}  // namespace reprofuse::cuda::int16::ops
