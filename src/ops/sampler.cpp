#include "reprofuse/sampler.hpp"

#include <algorithm>
#include <cfloat>
#include <mutex>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/math.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {
namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 24;

using SeenWords = std::vector<std::uint32_t>;  // bit v of the words: id v is in the sequence

SeenWords seen_words(std::span<const std::int32_t> history, std::int64_t vocabulary) {
  SeenWords words(static_cast<std::size_t>(ceil_div<std::int64_t>(vocabulary, 32)));
  for (const std::int32_t id : history) {
    require(id >= 0 && id < vocabulary, "sampler: token id {} of the history is outside 0 to {}", id, vocabulary - 1);
    words[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
  }
  return words;
}

void check_sample_call(ConstMatrix logits, std::span<const SampleInput> inputs, std::int64_t vocabulary,
                       std::int64_t max_rows) {
  const auto rows = static_cast<std::int64_t>(inputs.size());
  require(rows <= max_rows, "sampler: {} rows; it was made for at most {}", rows, max_rows);
  require(logits.rows == rows && logits.cols == vocabulary, "sampler: logits of [{}, {}] where [{}, {}] are expected",
          logits.rows, logits.cols, rows, vocabulary);
  require(rows == 0 || logits.data != nullptr, "sampler: the logits pointer is null");
  require(logits.stride >= vocabulary, "sampler: a stride of {} is below the {} columns", logits.stride, vocabulary);
  require(checked_product(rows, logits.stride, sizeof(float)).has_value(),
          "sampler: {} rows with a stride of {} are larger than any memory", rows, logits.stride);
  const std::int64_t max_logprobs = std::min<std::int64_t>(sampling::kMaxLogprobs, vocabulary);
  for (const SampleInput& input : inputs) {
    check_sampling_params(input.params);
    require(input.logprobs >= -1 && input.logprobs <= max_logprobs, "sampler: logprobs = {} is outside -1 to {}",
            input.logprobs, max_logprobs);
    require(input.given >= -1 && input.given < vocabulary, "sampler: the given token {} is outside 0 to {}",
            input.given, vocabulary - 1);
  }
}

}  // namespace

void check_sampling_params(const SamplingParams& params) {
  require(params.temperature >= 0.0F && params.temperature <= FLT_MAX,
          "temperature = {} is not a finite number of at least 0", params.temperature);
  require(params.top_k >= 0, "top_k = {} is below 0 (0 keeps all tokens)", params.top_k);
  require(params.top_p >= 0.0F && params.top_p <= 1.0F, "top_p = {} is outside 0 to 1", params.top_p);
  require(params.min_p >= 0.0F && params.min_p <= 1.0F, "min_p = {} is outside 0 to 1", params.min_p);
  require(params.repetition_penalty > 0.0F && params.repetition_penalty <= FLT_MAX,
          "repetition_penalty = {} is not a finite number above 0", params.repetition_penalty);
}

struct Sampler::Impl {
  Impl(const Context& of, std::int64_t ids, std::int64_t rows)
      : context(of), vocabulary(ids), max_rows(rows), batch(of.state().backend->make_sample_batch(ids, rows)) {}

  Context context;
  std::int64_t vocabulary;
  std::int64_t max_rows;
  std::unique_ptr<kernels::SampleBatch> batch;
  std::mutex mutex;  // of the batch
};

Sampler::Sampler(const Context& context, std::int64_t vocabulary, std::int64_t max_rows) {
  require(vocabulary > 0 && vocabulary <= sampling::kMaxVocabulary, "sampler: a vocabulary of {} is outside 1 to {}",
          vocabulary, sampling::kMaxVocabulary);
  require(max_rows > 0 && max_rows <= kMaxRows, "sampler: max_rows = {} is outside 1 to {}", max_rows, kMaxRows);
  impl_ = std::make_unique<Impl>(context, vocabulary, max_rows);
}

Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

std::vector<SampleResult> Sampler::run(ConstMatrix logits, std::span<const SampleInput> inputs, void* stream) const {
  std::vector<SampleResult> results = run_each(logits, inputs, stream);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].not_finite >= 0)
      fail(ErrorCode::kNonFinite, "sampler: row {}: the logit of id {} is not finite{}", i, results[i].not_finite,
           inputs[i].params.repetition_penalty == 1.0F ? "" : " after the repetition penalty");
  return results;
}

std::vector<SampleResult> Sampler::run_each(ConstMatrix logits, std::span<const SampleInput> inputs,
                                            void* stream) const {
  check_sample_call(logits, inputs, impl_->vocabulary, impl_->max_rows);
  std::vector<kernels::SampleRow> rows;
  std::vector<SeenWords> seen(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const SampleInput& input = inputs[i];
    if (input.params.repetition_penalty != 1.0F) seen[i] = seen_words(input.history, impl_->vocabulary);
    rows.push_back({.logits = logits.data + static_cast<std::int64_t>(i) * logits.stride,
                    .seen = seen[i].empty() ? nullptr : seen[i].data(),
                    .params = input.params,
                    .position = input.position,
                    .given = input.given,
                    .logprobs = input.logprobs,
                    .logits_root = input.logits_root});
  }
  std::vector<SampleResult> results(rows.size());
  {
    const FpEnvironment pinned;
    const std::lock_guard lock(impl_->mutex);
    impl_->batch->run(rows, results, stream);
  }
  return results;
}

std::int32_t sample(const Context& context, std::span<const float> logits, const SamplingParams& params,
                    std::span<const std::int32_t> history, std::uint64_t position) {
  const auto vocabulary = static_cast<std::int64_t>(logits.size());
  const SampleInput input{.params = params, .history = history, .position = position};
  return Sampler(context, vocabulary, 1).run({logits.data(), 1, vocabulary, vocabulary}, {&input, 1})[0].token;
}

}  // namespace reprofuse
