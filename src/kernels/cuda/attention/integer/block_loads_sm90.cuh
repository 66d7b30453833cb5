// How the TMA brings the digits and units of a block of keys to shared memory. Pages hold digits as a matrix product
// wants them, so that plain bytes are copied.
#pragma once

#include "kernels/cuda/attention/integer/fold.cuh"
#include "kernels/cuda/ptx/pipeline_sm90.cuh"
#include "kernels/cuda/ptx/sm90.cuh"

namespace reprofuse::cuda::integer_attention {

// A block comes in pieces that lie in one page each; a lane of a warp has one. The block's highest digits come first in
// shared memory, then the next.
template <int kKeys, int kHeadDim, int kDigits>
struct BlockPieces {
  const AttentionParams& p;
  int sequence, kv_head;
  int begin, end;  // of the keys that are asked for
  int keys;        // of a piece

  __device__ BlockPieces(const AttentionParams& params, int sequence_, int kv_head_, int begin_, int end_)
      : p(params),
        sequence(sequence_),
        kv_head(kv_head_),
        begin(begin_),
        end(end_),
        keys(min(p.kv.page_size(), kKeys)) {}

  // The lane's page of a block; -1: none of its keys is asked for, and it may not exist.
  __device__ int page(int block) const {
    const int first = block * kKeys + first_key();
    return first_key() < kKeys && first < end && first + keys > begin ? p.kv.page_of(sequence, first) : -1;
  }
  // The whole warp: loads digits to `tile`. `full` also waits for more_bytes of each piece.
  __device__ void load_digits(const void* cache, int block, int page, std::uint8_t* tile, std::uint64_t* full,
                              int more_bytes = 0) const {
    const int bytes = keys * kHeadDim, loaded = __popc(__ballot_sync(~0u, page >= 0));
    if (threadIdx.x % kWarp == 0) ptx::mbarrier_arrive_expect_tx(full, loaded * (kDigits * bytes + more_bytes));
    __syncwarp();
    if (page < 0) return;
    const std::uint8_t* from = high_digits(cache, block, page);
    std::uint8_t* to = tile + first_key() * kHeadDim;
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit)
      ptx::tma_load_bulk(to + digit * (kKeys * kHeadDim), from + digit * plane_bytes(), bytes, full);
  }
  // To the L2 alone.
  __device__ void prefetch_digits(const void* cache, int block, int page) const {
    if (page < 0) return;
    const std::uint8_t* from = high_digits(cache, block, page);
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit) ptx::tma_prefetch_bulk(from + digit * plane_bytes(), keys * kHeadDim);
  }
  // The units of keys and of values: unit_bytes() of a piece.
  __device__ int unit_bytes() const {
    return 2 * keys;
  }
  __device__ void load_units(int block, int page, std::uint8_t* key_bytes, std::uint8_t* value_bytes,
                             std::uint64_t* full) const {
    if (page < 0) return;
    const std::int64_t unit = (head(page) << p.kv.page_shift) + slot(block);
    ptx::tma_load_bulk(key_bytes + first_key(), p.kv.key_units + unit, keys, full);
    ptx::tma_load_bulk(value_bytes + first_key(), p.kv.value_units + unit, keys, full);
  }

 private:
  __device__ std::int64_t plane_bytes() const {
    return static_cast<std::int64_t>(kHeadDim) << p.kv.page_shift;
  }
  // Of the lane's piece.
  __device__ const std::uint8_t* high_digits(const void* cache, int block, int page) const {
    return static_cast<const std::uint8_t*>(cache) + kDigits * head(page) * plane_bytes() +
           static_cast<std::int64_t>(slot(block)) * kHeadDim;
  }
  __device__ int first_key() const {
    return static_cast<int>(threadIdx.x % kWarp) * keys;
  }
  __device__ int slot(int block) const {
    return (block * kKeys + first_key()) & (p.kv.page_size() - 1);
  }
  __device__ std::int64_t head(int page) const {
    return static_cast<std::int64_t>(page) * p.kv.kv_heads + kv_head;
  }
};

}  // namespace reprofuse::cuda::integer_attention
