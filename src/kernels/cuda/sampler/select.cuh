// Reductions and selections of one CTA over a row of tokens with integer weights. Integer sums have no order, so
// neither the number of threads nor the order of the atomics can move a bit. A row does not stay in the L1, so what
// counts is how often all of it is read: whatever is left of it after a selection is a list in shared memory.
#pragma once

#include <cstdint>

#include "numerics/sampling.hpp"

namespace reprofuse::cuda::sampler {

using Word = unsigned long long;

inline constexpr int kSampleThreads = 1024;
inline constexpr int kWarps = kSampleThreads / 32;
inline constexpr int kDigitBits = 11;
inline constexpr int kDigits = 1 << kDigitBits;
inline constexpr int kMaxListed = 4096;
inline constexpr int kFew = 256;
static_assert(kDigits == 2 * kSampleThreads && kWarps == 32, "a thread owns two digits, a lane one warp");

// Sums of 64 bits in two words: shared memory has atomic additions of 32.
struct Sums {
  std::uint32_t low[kDigits], high[kDigits];

  __device__ Word get(int i) const { return Word{high[i]} << 32 | low[i]; }
  __device__ void set(int i, Word value) {
    low[i] = static_cast<std::uint32_t>(value);
    high[i] = static_cast<std::uint32_t>(value >> 32);
  }
  __device__ void add(int i, Word value) {
    const auto low_word = static_cast<std::uint32_t>(value);
    const std::uint32_t before = atomicAdd(&low[i], low_word);
    const std::uint32_t carried = static_cast<std::uint32_t>(value >> 32) + (before + low_word < before ? 1 : 0);
    if (carried != 0) atomicAdd(&high[i], carried);
  }
};

struct SampleShared {
  union {
    Sums histogram;  // by descending digit
    struct {
      Word keys[kFew], weights[kFew];
    } few;
  };
  Word warps[kWarps];
  Word settled;
  Word needed;
  int list[kMaxListed];
  int listed;
};

struct Sum {
  static __device__ Word apply(Word a, Word b) { return a + b; }
};
struct Max {
  static __device__ Word apply(Word a, Word b) { return a > b ? a : b; }
};

// Of every thread's value; every thread gets it.
template <class Op>
__device__ Word reduce_cta(Word value, SampleShared& shared) {
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

// The ids of a row that are still in question: all, or those of a list.
class Ids {
 public:
  __device__ Ids(const float* logits, int vocabulary) : logits_(logits), count_(vocabulary) {}

  __device__ bool are_listed() const { return list_ != nullptr; }
  __device__ bool are_few() const { return are_listed() && count_ <= kFew; }
  __device__ int count() const { return count_; }

  // visit(id, logit): each thread has its part of them, in any order.
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    if (list_ != nullptr) {
      for (int i = threadIdx.x; i < count_; i += kSampleThreads) visit(list_[i], logits_[list_[i]]);
      return;
    }
    constexpr int kAtOnce = 8;  // loads under way, before the first is waited for
    for (int first = threadIdx.x; first < count_; first += kAtOnce * kSampleThreads) {
      float logits[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        logits[i] = first + i * kSampleThreads < count_ ? __ldg(logits_ + first + i * kSampleThreads) : 0.0F;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i * kSampleThreads < count_) visit(first + i * kSampleThreads, logits[i]);
    }
  }

  // From now on those alone whose key is in [min_key, max_key], if they fit the list. Of all ids: there is one list.
  template <class Key>
  __device__ void keep(Word min_key, Word max_key, const Key& key, SampleShared& shared) {
    __syncthreads();
    if (threadIdx.x == 0) shared.listed = 0;
    __syncthreads();
    each([&](int id, float logit) {
      if (const Word k = key(id, logit); k < min_key || k > max_key) return;
      const int place = atomicAdd(&shared.listed, 1);
      if (place < kMaxListed) shared.list[place] = id;
    });
    __syncthreads();
    if (shared.listed > kMaxListed) return;
    list_ = shared.list;
    count_ = shared.listed;
  }

 private:
  const float* logits_;
  const int* list_ = nullptr;
  int count_;
};

// One thing for each thread, which knows what it is.
struct OneEach {
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    visit(0, 0.0F);
  }
};

template <class Weight>
__device__ Word total_weight(const Ids& ids, const Weight& weight, SampleShared& shared) {
  Word sum = 0;
  ids.each([&](int id, float logit) { sum += weight(id, logit); });
  return reduce_cta<Sum>(sum, shared);
}

// Takes things by descending key until their weights reach `needed`, and settles the next eleven bits of the key of the
// last one taken; `needed` becomes what the rest of its bits has to reach.
template <class Things, class Key, class Weight>
__device__ void settle_digit(const Things& things, int& open, Word& settled, Word& needed, const Key& key,
                             const Weight& weight, SampleShared& shared) {
  const int digit_bits = open < kDigitBits ? open : kDigitBits;
  const int shift = open - digit_bits;
  const Word mask = (Word{1} << digit_bits) - 1;
  __syncthreads();  // the last pass has read shared.settled
  for (int i = threadIdx.x; i < kDigits; i += kSampleThreads) shared.histogram.set(i, 0);
  __syncthreads();
  things.each([&](int id, float logit) {
    const Word k = key(id, logit);
    if (k >> open != settled) return;
    const Word w = weight(id, logit);
    if (w != 0) shared.histogram.add(static_cast<int>(mask - (k >> shift & mask)), w);
  });
  __syncthreads();
  const int first = 2 * threadIdx.x;
  const Word one = shared.histogram.get(first);
  const Word both = one + shared.histogram.get(first + 1);
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

// The key of the last one taken. Keys have `bits` bits; 1 <= needed <= the sum of all weights.
template <class Things, class Key, class Weight>
__device__ Word last_key_taken(const Things& things, int bits, const Key& key, const Weight& weight, Word needed,
                               SampleShared& shared) {
  Word settled = 0;
  while (bits > 0) settle_digit(things, bits, settled, needed, key, weight, shared);
  return settled;
}

// The same for a short list of distinct keys: each thread adds up what comes before its own.
template <class Key, class Weight>
__device__ Word last_key_of_few(const Ids& ids, const Key& key, const Weight& weight, Word needed,
                                SampleShared& shared) {
  __syncthreads();  // the histogram is not in use
  Word own = 0, own_weight = 0;
  ids.each([&](int id, float logit) {
    own = key(id, logit);
    own_weight = weight(id, logit);
    shared.few.keys[threadIdx.x] = own;
    shared.few.weights[threadIdx.x] = own_weight;
  });
  __syncthreads();
  if (threadIdx.x < ids.count()) {
    Word before = 0;
    for (int i = 0; i < ids.count(); ++i)
      if (shared.few.keys[i] > own) before += shared.few.weights[i];
    if (before < needed && needed <= before + own_weight) shared.settled = own;
  }
  __syncthreads();
  return shared.settled;
}

// The same by order_key(), after which `ids` are a list of those that were taken, if they fit.
template <class Key, class Weight>
__device__ Word narrow(Ids& ids, const Key& key, const Weight& weight, Word needed, SampleShared& shared) {
  if (ids.are_few()) return last_key_of_few(ids, key, weight, needed, shared);
  Ids open_ids = ids;  // whose keys begin with what is settled
  Word settled = 0;
  for (int open = sampling::kKeyBits; open > 0;) {
    settle_digit(open_ids, open, settled, needed, key, weight, shared);
    if (open > 0 && !open_ids.are_listed()) open_ids.keep(settled << open, ((settled + 1) << open) - 1, key, shared);
  }
  if (!ids.are_listed()) ids.keep(settled, ~Word{0}, key, shared);
  return settled;
}

}  // namespace reprofuse::cuda::sampler
