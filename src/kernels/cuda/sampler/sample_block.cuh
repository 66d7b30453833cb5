// Reductions and selections of one thread block over a row of tokens with integer weights. Integer sums know no order,
// so neither the block size nor the order of the atomics can move a bit.
#pragma once

#include <cstdint>

namespace reprofuse::cuda::fma1 {

using Word = unsigned long long;  // what 64-bit atomics take

inline constexpr int kSampleThreads = 1024;
inline constexpr int kWarps = kSampleThreads / 32;
inline constexpr int kDigitBits = 11;
inline constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == 2 * kSampleThreads && kWarps == 32, "a thread owns two digits, a lane one warp");

struct SampleShared {
  Word histogram[kDigits];  // by descending digit
  Word warps[kWarps];
  Word settled;
  Word needed;
};

struct Sum {
  static __device__ Word apply(Word a, Word b) { return a + b; }
};
struct Max {
  static __device__ Word apply(Word a, Word b) { return a > b ? a : b; }
};

// Of every thread's value; every thread gets it.
template <class Op>
__device__ Word reduce_block(Word value, SampleShared& shared) {
  for (int step = 16; step > 0; step /= 2) value = Op::apply(value, __shfl_xor_sync(~0u, value, step));
  __syncthreads();  // the last reduction's values have been read
  if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared.warps[threadIdx.x % 32];
  for (int step = 16; step > 0; step /= 2) value = Op::apply(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

// The sum of the values of all threads before this one.
__device__ inline Word sum_before(Word value, SampleShared& shared) {
  const int lane = threadIdx.x % 32;
  Word up_to = value;
  for (int step = 1; step < 32; step *= 2) {
    const Word other = __shfl_up_sync(~0u, up_to, step);
    if (lane >= step) up_to += other;
  }
  __syncthreads();
  if (lane == 31) shared.warps[threadIdx.x / 32] = up_to;
  __syncthreads();
  Word warps = lane < threadIdx.x / 32 ? shared.warps[lane] : 0;
  for (int step = 16; step > 0; step /= 2) warps += __shfl_xor_sync(~0u, warps, step);
  return warps + up_to - value;
}

template <class Weight>
__device__ Word total_weight(int vocabulary, const Weight& weight, SampleShared& shared) {
  Word sum = 0;
  for (int id = threadIdx.x; id < vocabulary; id += kSampleThreads) sum += weight(id);
  return reduce_block<Sum>(sum, shared);
}

// Takes ids by descending rank until their weights reach `needed`, and returns the rank of the last one taken. Ranks
// are distinct and have `bits` bits; 1 <= needed <= the sum of all weights. One pass settles eleven bits.
template <class Rank, class Weight>
__device__ Word last_rank_taken(int vocabulary, int bits, const Rank& rank, const Weight& weight, Word needed,
                                SampleShared& shared) {
  Word settled = 0;
  for (int open = bits; open > 0;) {
    const int digit_bits = open < kDigitBits ? open : kDigitBits;
    const int shift = open - digit_bits;
    const Word mask = (Word{1} << digit_bits) - 1;
    __syncthreads();  // the last pass has read shared.settled
    for (int i = threadIdx.x; i < kDigits; i += kSampleThreads) shared.histogram[i] = 0;
    __syncthreads();
    for (int id = threadIdx.x; id < vocabulary; id += kSampleThreads) {
      const Word r = rank(id);
      if (r >> open != settled) continue;
      const Word w = weight(id);
      if (w != 0) atomicAdd(&shared.histogram[mask - (r >> shift & mask)], w);
    }
    __syncthreads();
    const int first = 2 * threadIdx.x;
    const Word one = shared.histogram[first];
    const Word both = one + shared.histogram[first + 1];
    const Word before = sum_before(both, shared);
    if (before < needed && needed <= before + both) {
      const bool in_first = needed <= before + one;
      shared.settled = settled << digit_bits | (mask - first - (in_first ? 0 : 1));
      shared.needed = needed - before - (in_first ? 0 : one);
    }
    __syncthreads();
    settled = shared.settled;
    needed = shared.needed;
    open = shift;
  }
  return settled;
}

}  // namespace reprofuse::cuda::fma1
