#include <cstdint>

#include "kernels/cuda/sampler/sample.hpp"

namespace reprofuse::cuda::fma1 {

// Reductions and selections of one thread block over a row of tokens with integer weights. Integer sums know no order,
// so neither the block size nor the order of the atomics can move a bit.
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

// Takes ids by descending key until their weights reach `needed`, and returns the key of the last one taken. Keys
// are distinct and have `bits` bits; 1 <= needed <= the sum of all weights. One pass settles eleven bits.
template <class Key, class Weight>
__device__ Word last_key_taken(int vocabulary, int bits, const Key& key, const Weight& weight, Word needed,
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
      const Word k = key(id);
      if (k >> open != settled) continue;
      const Word w = weight(id);
      if (w != 0) atomicAdd(&shared.histogram[mask - (k >> shift & mask)], w);
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

namespace {

using kernels::SampleResult;
using kernels::SampleRow;

__device__ float logit_of(Word key) {
  const std::uint32_t ascending = static_cast<std::uint32_t>(key >> sampling::kIdBits);
  return float_from_bits((ascending & 0x80000000u) != 0 ? ascending ^ 0x80000000u : ~ascending);
}

struct Summary {
  Word highest;    // key
  int not_finite;  // the first id, or -1
};

template <class Logit>
__device__ Summary summarize(int vocabulary, const Logit& logit, SampleShared& shared) {
  Word highest = 0;
  Word first = 0;  // vocabulary - id, so that the first id is the greatest
  for (int id = threadIdx.x; id < vocabulary; id += kSampleThreads) {
    const float value = logit(id);
    highest = Max::apply(highest, sampling::order_key(value, id));
    if ((float_bits(value) & 0x7f800000u) == 0x7f800000u) first = Max::apply(first, vocabulary - id);
  }
  first = reduce_block<Max>(first, shared);
  return {reduce_block<Max>(highest, shared), first == 0 ? -1 : vocabulary - static_cast<int>(first)};
}

template <class Key>
__device__ Word last_key_of_top(int count, int vocabulary, const Key& key, SampleShared& shared) {
  return last_key_taken(
      vocabulary, sampling::kKeyBits, key, [](int) { return Word{1}; }, count, shared);
}

__device__ int draw(const SampleRow& row, int vocabulary, float greatest, SampleShared& shared) {
  const SamplingParams& params = row.params;
  Word last = 0;  // keys below it are out
  const auto key = [&](int id) -> Word { return sampling::order_key(penalized_logit(row, id), id); };
  const auto probability = [&](int id) {
    return sampling::unnormalised_probability(penalized_logit(row, id), greatest, params.temperature);
  };
  const auto weight = [&](int id) -> Word { return key(id) >= last ? sampling::weight_of(probability(id)) : 0; };
  if (params.top_k > 0 && params.top_k < vocabulary) last = last_key_of_top(params.top_k, vocabulary, key, shared);
  if (params.top_p < 1.0F) {
    const Word needed = sampling::nucleus_weight(params.top_p, total_weight(vocabulary, weight, shared));
    last = last_key_taken(vocabulary, sampling::kKeyBits, key, weight, needed, shared);
  }
  const auto kept_weight = [&](int id) -> Word {
    if (key(id) < last) return 0;
    const float e = probability(id);
    return e < params.min_p ? 0 : sampling::weight_of(e);
  };
  const Word target = sampling::draw_below(total_weight(vocabulary, kept_weight, shared), params.seed, row.position);
  const auto ascending = [](int id) -> Word { return sampling::kMaxVocabulary - 1 - id; };
  return static_cast<int>(
      sampling::id_of(last_key_taken(vocabulary, sampling::kIdBits, ascending, kept_weight, target + 1, shared)));
}

__device__ void fill_logprobs(const SampleRow& row, int vocabulary, int token, SampleResult& result,
                              SampleShared& shared) {
  const auto key = [&](int id) -> Word { return sampling::order_key(row.logits[id], id); };
  const float greatest = logit_of(summarize(
                                      vocabulary, [&](int id) { return row.logits[id]; }, shared)
                                      .highest);
  const float log_total = sampling::log_total(total_weight(
      vocabulary, [&](int id) -> Word { return sampling::weight_of(exp_nonpositive_f32(row.logits[id] - greatest)); },
      shared));
  const Word own = key(token);
  const Word above_or_own = total_weight(
      vocabulary, [&](int id) -> Word { return key(id) >= own ? 1 : 0; }, shared);
  if (threadIdx.x == 0) {
    result.logprob = sampling::logprob(row.logits[token], greatest, log_total);
    result.rank = static_cast<int>(above_or_own);
  }
  if (row.logprobs == 0) return;

  const Word last = last_key_of_top(row.logprobs, vocabulary, key, shared);
  __syncthreads();  // from here the histogram holds the keys found, and `needed` counts them
  if (threadIdx.x == 0) shared.needed = 0;
  __syncthreads();
  for (int id = threadIdx.x; id < vocabulary; id += kSampleThreads)
    if (const Word k = key(id); k >= last) shared.histogram[atomicAdd(&shared.needed, Word{1})] = k;
  __syncthreads();
  if (threadIdx.x >= row.logprobs) return;
  const Word mine = shared.histogram[threadIdx.x];
  int above = 0;
  for (int i = 0; i < row.logprobs; ++i) above += shared.histogram[i] > mine ? 1 : 0;
  const int id = static_cast<int>(sampling::id_of(mine));
  result.top[above] = {id, sampling::logprob(row.logits[id], greatest, log_total)};
}

// One CTA, one row.
__global__ void __launch_bounds__(kSampleThreads)
    sample_rows(const SampleRow* rows, int vocabulary, SampleResult* results) {
  __shared__ SampleShared shared;
  const SampleRow row = rows[blockIdx.x];
  SampleResult& result = results[blockIdx.x];
  const Summary summary = summarize(
      vocabulary, [&](int id) { return penalized_logit(row, id); }, shared);
  int token = -1;
  if (summary.not_finite < 0 && row.given >= 0) {
    token = row.given;
  } else if (summary.not_finite < 0) {
    token = row.params.temperature > 0.0F ? draw(row, vocabulary, logit_of(summary.highest), shared)
                                          : static_cast<int>(sampling::id_of(summary.highest));
  }
  if (threadIdx.x < sizeof(result.logits_root)) result.logits_root[threadIdx.x] = 0;
  if (threadIdx.x < sampling::kMaxLogprobs) result.top[threadIdx.x] = {-1, 0.0F};
  if (threadIdx.x == 0) {
    result.token = token;
    result.not_finite = summary.not_finite;
    result.logprob = 0.0F;
    result.rank = 0;
  }
  if (token >= 0 && row.logprobs >= 0) fill_logprobs(row, vocabulary, token, result, shared);
}

}  // namespace

cudaError_t launch_sample_rows(const SampleRow* rows, int count, int vocabulary, SampleResult* results,
                               cudaStream_t stream) {
  void* arguments[] = {&rows, &vocabulary, &results};
  return cudaLaunchKernel(reinterpret_cast<const void*>(sample_rows), dim3(count), dim3(kSampleThreads), arguments, 0,
                          stream);
}

}  // namespace reprofuse::cuda::fma1
