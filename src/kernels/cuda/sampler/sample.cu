#include "kernels/cuda/sampler/sample_block.cuh"
#include "kernels/cuda/sampler/sample_launch.hpp"

namespace reprofuse::cuda::fma1 {
namespace {

using kernels::SampleResult;
using kernels::SampleRow;

__device__ float logit_of(Word rank) {
  const std::uint32_t ascending = static_cast<std::uint32_t>(rank >> sampling::kIdBits);
  return float_from_bits((ascending & 0x80000000u) != 0 ? ascending ^ 0x80000000u : ~ascending);
}

struct Summary {
  Word highest;    // rank
  int not_finite;  // the first id, or -1
};

template <class Logit>
__device__ Summary summarize(int vocabulary, const Logit& logit, SampleShared& shared) {
  Word highest = 0;
  Word first = 0;  // vocabulary - id, so that the first id is the greatest
  for (int id = threadIdx.x; id < vocabulary; id += kSampleThreads) {
    const float value = logit(id);
    highest = Max::apply(highest, sampling::rank_of(value, id));
    if ((float_bits(value) & 0x7f800000u) == 0x7f800000u) first = Max::apply(first, vocabulary - id);
  }
  first = reduce_block<Max>(first, shared);
  return {reduce_block<Max>(highest, shared), first == 0 ? -1 : vocabulary - static_cast<int>(first)};
}

template <class Rank>
__device__ Word last_rank_of_top(int count, int vocabulary, const Rank& rank, SampleShared& shared) {
  return last_rank_taken(
      vocabulary, sampling::kRankBits, rank, [](int) { return Word{1}; }, count, shared);
}

__device__ int draw(const SampleRow& row, int vocabulary, float greatest, SampleShared& shared) {
  const SamplingParams& params = row.params;
  Word last = 0;  // ranks below it are out
  const auto rank = [&](int id) -> Word { return sampling::rank_of(penalized_logit(row, id), id); };
  const auto likelihood = [&](int id) {
    return sampling::likelihood(penalized_logit(row, id), greatest, params.temperature);
  };
  const auto weight = [&](int id) -> Word { return rank(id) >= last ? sampling::weight_of(likelihood(id)) : 0; };
  if (params.top_k > 0 && params.top_k < vocabulary) last = last_rank_of_top(params.top_k, vocabulary, rank, shared);
  if (params.top_p < 1.0F) {
    const Word needed = sampling::nucleus_weight(params.top_p, total_weight(vocabulary, weight, shared));
    last = last_rank_taken(vocabulary, sampling::kRankBits, rank, weight, needed, shared);
  }
  const auto kept_weight = [&](int id) -> Word {
    if (rank(id) < last) return 0;
    const float e = likelihood(id);
    return e < params.min_p ? 0 : sampling::weight_of(e);
  };
  const Word target = sampling::draw_below(total_weight(vocabulary, kept_weight, shared), params.seed, row.position);
  const auto ascending = [](int id) -> Word { return sampling::kMaxVocabulary - 1 - id; };
  return static_cast<int>(
      sampling::id_of(last_rank_taken(vocabulary, sampling::kIdBits, ascending, kept_weight, target + 1, shared)));
}

__device__ void fill_logprobs(const SampleRow& row, int vocabulary, int token, SampleResult& result,
                              SampleShared& shared) {
  const auto rank = [&](int id) -> Word { return sampling::rank_of(row.logits[id], id); };
  const float greatest = logit_of(summarize(
                                      vocabulary, [&](int id) { return row.logits[id]; }, shared)
                                      .highest);
  const float log_total = sampling::log_total(total_weight(
      vocabulary, [&](int id) -> Word { return sampling::weight_of(exp_nonpositive_f32(row.logits[id] - greatest)); },
      shared));
  const Word own = rank(token);
  const Word above_or_own = total_weight(
      vocabulary, [&](int id) -> Word { return rank(id) >= own ? 1 : 0; }, shared);
  if (threadIdx.x == 0) {
    result.logprob = sampling::logprob(row.logits[token], greatest, log_total);
    result.rank = static_cast<int>(above_or_own);
  }
  if (row.logprobs == 0) return;

  const Word last = last_rank_of_top(row.logprobs, vocabulary, rank, shared);
  __syncthreads();  // from here the histogram holds the ranks found, and `needed` counts them
  if (threadIdx.x == 0) shared.needed = 0;
  __syncthreads();
  for (int id = threadIdx.x; id < vocabulary; id += kSampleThreads)
    if (const Word r = rank(id); r >= last) shared.histogram[atomicAdd(&shared.needed, Word{1})] = r;
  __syncthreads();
  if (threadIdx.x >= row.logprobs) return;
  const Word mine = shared.histogram[threadIdx.x];
  int above = 0;
  for (int i = 0; i < row.logprobs; ++i) above += shared.histogram[i] > mine ? 1 : 0;
  const int id = static_cast<int>(sampling::id_of(mine));
  result.top[above] = {id, sampling::logprob(row.logits[id], greatest, log_total)};
}

// One block, one row.
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
