#include "kernels/cuda/sampler/sample.hpp"
#include "kernels/cuda/sampler/select.cuh"

namespace reprofuse::cuda::sampler {

namespace {

using kernels::SampleResult;
using kernels::SampleRow;

__device__ float logit_of(Word key) {
  const std::uint32_t ascending = static_cast<std::uint32_t>(key >> sampling::kIdBits);
  return float_from_bits((ascending & 0x80000000u) != 0 ? ascending ^ 0x80000000u : ~ascending);
}

struct Summary {
  Word highest;    // key
  Word own;        // the highest that this thread has seen
  int not_finite;  // the first id, or -1
};

template <class Logit>
__device__ Summary summarize(const Ids& ids, int vocabulary, const Logit& logit_of_id, SampleShared& shared) {
  Word own = 0;
  Word first = 0;  // vocabulary - id, so that the first id is the greatest
  ids.each([&](int id, float logit) {
    const float value = logit_of_id(id, logit);
    own = Max::apply(own, sampling::order_key(value, id));
    if ((float_bits(value) & 0x7f800000u) == 0x7f800000u) first = Max::apply(first, vocabulary - id);
  });
  first = reduce_cta<Max>(first, shared);
  return {reduce_cta<Max>(own, shared), own, first == 0 ? -1 : vocabulary - static_cast<int>(first)};
}

// The key of the last of the `count` likeliest. `own` is a key of each thread: the last of the `count` highest of these
// is not above it, and few ids lie between.
template <class Key>
__device__ Word last_key_of_top(Ids& ids, int count, int vocabulary, Word own, const Key& key, SampleShared& shared) {
  const auto one = [](int, float) { return Word{1}; };
  if (count <= kSampleThreads / 2 && vocabulary >= kSampleThreads) {  // each thread has a key
    constexpr int kLogitBits = sampling::kKeyBits - sampling::kIdBits;
    const auto own_logit = [&](int, float) { return own >> sampling::kIdBits; };
    const Word min_key = last_key_taken(OneEach{}, kLogitBits, own_logit, one, count, shared);
    ids.keep(min_key << sampling::kIdBits, ~Word{0}, key, shared);
  }
  return narrow(ids, key, one, count, shared);
}

// The id with which the weights, by ascending ids, come to more than a number that `target` draws below their sum.
// The histogram has the sums of as many segments of ids.
template <class Weight, class Target>
__device__ int id_at_weight(const float* logits, int vocabulary, const Weight& weight, const Target& target,
                            SampleShared& shared) {
  constexpr int kSegmentsOfWarp = kDigits / kWarps;
  constexpr int kAtOnce = 8;  // loads under way
  static_assert(kSegmentsOfWarp % kAtOnce == 0);
  const int pieces = (vocabulary + 32 * kDigits - 1) / (32 * kDigits);  // of 32 ids, in a segment
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto logit_at = [&](int id) { return id < vocabulary ? __ldg(logits + id) : 0.0F; };
  const auto weight_at = [&](int id, float logit) { return id < vocabulary ? weight(id, logit) : Word{0}; };
  __syncthreads();
  Word sum = 0;
  for (int first = 0; first < kSegmentsOfWarp * pieces; first += kAtOnce) {
    const int begin = (warp * kSegmentsOfWarp * pieces + first) * 32 + lane;
    float values[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) values[i] = logit_at(begin + i * 32);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      sum += weight_at(begin + i * 32, values[i]);
      if ((first + i + 1) % pieces != 0) continue;
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane == 0) shared.histogram.set(warp * kSegmentsOfWarp + (first + i) / pieces, sum);
      sum = 0;
    }
  }
  __syncthreads();
  const int first = 2 * threadIdx.x;
  const Word one = shared.histogram.get(first);
  const Word both = one + shared.histogram.get(first + 1);
  const Word before = sum_before(both, shared);
  const Word sought = target(reduce_cta<Sum>(both, shared));
  if (before <= sought && sought < before + both) {
    const bool in_first = sought < before + one;
    shared.settled = first + (in_first ? 0 : 1);
    shared.needed = sought - before - (in_first ? 0 : one);
  }
  __syncthreads();
  if (warp == 0) {
    Word left = shared.needed;
    const int begin = static_cast<int>(shared.settled) * pieces * 32 + lane;
    for (int piece = 0; piece < pieces; ++piece) {
      const int id = begin + piece * 32;
      const Word own = weight_at(id, logit_at(id));
      Word up_to = own;
      for (int step = 1; step < 32; step *= 2) {
        const Word other = __shfl_up_sync(~0u, up_to, step);
        if (lane >= step) up_to += other;
      }
      if (up_to - own <= left && left < up_to) shared.listed = id;
      const Word all = __shfl_sync(~0u, up_to, 31);
      if (left < all) break;
      left -= all;
    }
  }
  __syncthreads();
  return shared.listed;
}

__device__ int draw(const SampleRow& row, int vocabulary, const Summary& summary, SampleShared& shared) {
  const SamplingParams& params = row.params;
  const float greatest = logit_of(summary.highest);
  Ids ids(row.logits, vocabulary);
  Word last = 0;  // keys below it are out
  const auto key = [&](int id, float logit) -> Word {
    return sampling::order_key(penalized_logit(row, id, logit), id);
  };
  const auto probability = [&](int id, float logit) {
    return sampling::unnormalized_probability(penalized_logit(row, id, logit), greatest, params.temperature);
  };
  const auto weight = [&](int id, float logit) -> Word {
    return key(id, logit) >= last ? sampling::weight_of(probability(id, logit)) : 0;
  };
  if (params.top_k > 0 && params.top_k < vocabulary)
    last = last_key_of_top(ids, params.top_k, vocabulary, summary.own, key, shared);
  if (params.top_p < 1.0F) {
    const Word needed = sampling::nucleus_weight(params.top_p, total_weight(ids, weight, shared));
    last = narrow(ids, key, weight, needed, shared);
  }
  const auto kept_weight = [&](int id, float logit) -> Word {
    if (key(id, logit) < last) return 0;
    const float e = probability(id, logit);
    return e < params.min_p ? 0 : sampling::weight_of(e);
  };
  const auto target = [&](Word total) { return sampling::draw_below(total, params.seed, row.position); };
  if (!ids.are_listed()) return id_at_weight(row.logits, vocabulary, kept_weight, target, shared);
  const auto ascending = [](int id, float) -> Word { return sampling::kMaxVocabulary - 1 - id; };
  const Word needed = target(total_weight(ids, kept_weight, shared)) + 1;
  return static_cast<int>(
      sampling::id_of(ids.are_few() ? last_key_of_few(ids, ascending, kept_weight, needed, shared)
                                    : last_key_taken(ids, sampling::kIdBits, ascending, kept_weight, needed, shared)));
}

// `summary` is that of the logits without a penalty.
__device__ void fill_logprobs(const SampleRow& row, int vocabulary, int token, const Summary& summary,
                              SampleResult& result, SampleShared& shared) {
  Ids ids(row.logits, vocabulary);
  const auto key = [](int id, float logit) -> Word { return sampling::order_key(logit, id); };
  const float greatest = logit_of(summary.highest);
  const Word own = key(token, row.logits[token]);
  Word total = 0, above_or_own = 0;
  ids.each([&](int id, float logit) {
    total += sampling::weight_of(exp_nonpositive_f32(logit - greatest));
    above_or_own += key(id, logit) >= own ? 1 : 0;
  });
  const float log_total = sampling::log_total(reduce_cta<Sum>(total, shared));
  above_or_own = reduce_cta<Sum>(above_or_own, shared);
  const auto logprob_of = [&](int id) { return sampling::logprob(row.logits[id], greatest, log_total); };
  if (threadIdx.x == 0) {
    result.logprob = logprob_of(token);
    result.rank = static_cast<int>(above_or_own);
  }
  if (row.logprobs == 0) return;
  if (row.logprobs == 1) {
    const int likeliest = static_cast<int>(sampling::id_of(summary.highest));
    if (threadIdx.x == 0) result.top[0] = {likeliest, logprob_of(likeliest)};
    return;
  }

  const Word last = last_key_of_top(ids, row.logprobs, vocabulary, summary.own, key, shared);
  __shared__ Word found[sampling::kMaxLogprobs];
  __syncthreads();
  if (threadIdx.x == 0) shared.needed = 0;
  __syncthreads();
  ids.each([&](int id, float logit) {
    if (const Word k = key(id, logit); k >= last) found[atomicAdd(&shared.needed, Word{1})] = k;
  });
  __syncthreads();
  if (threadIdx.x >= row.logprobs) return;
  const Word mine = found[threadIdx.x];
  int above = 0;
  for (int i = 0; i < row.logprobs; ++i) above += found[i] > mine ? 1 : 0;
  const int id = static_cast<int>(sampling::id_of(mine));
  result.top[above] = {id, logprob_of(id)};
}

// Another CTA may be adding to `from`: ids that are among this one's, too, so that it does not matter which it finds.
__device__ void update_seen(const SeenUpdate& update, int vocabulary) {
  if (update.to == nullptr) return;
  if (update.from != update.to)
    for (int i = threadIdx.x; i < (vocabulary + 31) / 32; i += kSampleThreads)
      update.to[i] = update.from != nullptr ? __ldcg(update.from + i) : 0;
  __syncthreads();
  for (int i = threadIdx.x; i < update.count; i += kSampleThreads)
    atomicOr(update.to + update.added[i] / 32, 1u << update.added[i] % 32);
  __syncthreads();
}

// One CTA, one row.
__global__ void __launch_bounds__(kSampleThreads)
    sample_rows(const SampleRow* rows, const SeenUpdate* updates, int vocabulary, SampleResult* results) {
  __shared__ SampleShared shared;
  const SampleRow row = rows[blockIdx.x];
  update_seen(updates[blockIdx.x], vocabulary);
  SampleResult& result = results[blockIdx.x];
  const Ids ids(row.logits, vocabulary);
  Summary summary = summarize(
      ids, vocabulary, [&](int id, float logit) { return penalized_logit(row, id, logit); }, shared);
  int token = -1;
  if (summary.not_finite < 0 && row.given >= 0) {
    token = row.given;
  } else if (summary.not_finite < 0) {
    token = row.params.temperature > 0.0F ? draw(row, vocabulary, summary, shared)
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
  if (token < 0 || row.logprobs < 0) return;
  if (row.seen != nullptr)
    summary = summarize(
        ids, vocabulary, [](int, float logit) { return logit; }, shared);
  __syncthreads();  // what is set above comes before what is told
  fill_logprobs(row, vocabulary, token, summary, result, shared);
}

}  // namespace

cudaError_t launch_sample_rows(const SampleRow* rows, const SeenUpdate* updates, int count, int vocabulary,
                               SampleResult* results, cudaStream_t stream) {
  void* arguments[] = {&rows, &updates, &vocabulary, &results};
  return cudaLaunchKernel(reinterpret_cast<const void*>(sample_rows), dim3(count), dim3(kSampleThreads), arguments, 0,
                          stream);
}

}  // namespace reprofuse::cuda::sampler
