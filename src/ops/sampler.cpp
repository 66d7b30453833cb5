#include "reprofuse/sampler.hpp"

#include <algorithm>
#include <cfloat>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.hpp"
#include "base/fp_environment.hpp"
#include "base/math.hpp"
#include "ops/context_state.hpp"

namespace reprofuse {
namespace {

constexpr std::int64_t kMaxSamplerRows = std::int64_t{1} << 24;

using Tokens = std::span<const std::int32_t>;

bool starts_with(Tokens text, Tokens beginning) {
  return text.size() >= beginning.size() && std::ranges::equal(text.first(beginning.size()), beginning);
}

}  // namespace

// Which ids each of the sampler's sets holds, so that only new ids of a growing text are sent. A set below max_rows is
// that of a slot. It keeps the shortest history of the slot's rows, so that it never holds guesses at what follows. The
// other sets serve one row of one run.
class SeenSlots {
 public:
  SeenSlots(std::int64_t vocabulary, std::int64_t max_rows) : vocabulary_(vocabulary), max_rows_(max_rows) {}

  // Calls run with what each row needs, or with nothing where no row has a penalty.
  template <class Run>
  void update(std::span<const SampleInput> inputs, const Run& run) {
    const std::vector<kernels::SeenIds> seen = plan(inputs);
    std::vector<std::vector<std::int32_t>> kept;  // of slots that are not known until the run has ended well
    for (const kernels::SeenIds& row : seen)
      if (is_slot(row.to)) kept.push_back(std::exchange(kept_[row.to], {}));
    run(seen);
    auto ids = kept.begin();
    for (const kernels::SeenIds& row : seen) {
      if (!is_slot(row.to)) continue;
      if (row.from < 0) ids->clear();
      ids->insert(ids->end(), row.added.begin(), row.added.end());
      kept_[row.to] = std::move(*ids++);
    }
  }

 private:
  bool is_slot(std::int32_t set) const { return set >= 0 && set < max_rows_; }

  std::vector<kernels::SeenIds> plan(std::span<const SampleInput> inputs) const {
    const auto has_penalty = [](const SampleInput& input) { return input.params.repetition_penalty != 1.0F; };
    if (std::ranges::none_of(inputs, has_penalty)) return {};
    std::map<std::int32_t, const SampleInput*> keepers;  // of slots, the row whose history each keeps
    for (const SampleInput& input : inputs) {
      if (!has_penalty(input) || input.slot < 0) continue;
      const SampleInput*& keeper = keepers[input.slot];
      if (keeper == nullptr || input.history.size() < keeper->history.size()) keeper = &input;
    }
    std::vector<kernels::SeenIds> seen(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!has_penalty(inputs[i])) continue;
      const SampleInput* keeper = inputs[i].slot < 0 ? nullptr : keepers.at(inputs[i].slot);
      seen[i] = plan_row(inputs[i], keeper);
      if (keeper != &inputs[i]) seen[i].to = static_cast<std::int32_t>(max_rows_ + static_cast<std::int64_t>(i));
    }
    return seen;
  }

  kernels::SeenIds plan_row(const SampleInput& input, const SampleInput* keeper) const {
    kernels::SeenIds seen{.from = -1, .to = input.slot, .added = input.history};
    if (const auto kept = kept_.find(input.slot); kept != kept_.end() && !kept->second.empty()) {
      const bool goes_on = keeper == &input || starts_with(input.history, keeper->history);
      if (goes_on && starts_with(keeper->history, kept->second))
        seen = {.from = input.slot, .to = input.slot, .added = input.history.subspan(kept->second.size())};
    }
    for (const std::int32_t id : seen.added)
      require(id >= 0 && id < vocabulary_, "sampler: token id {} of the history is outside 0 to {}", id,
              vocabulary_ - 1);
    return seen;
  }

  std::int64_t vocabulary_;
  std::int64_t max_rows_;
  std::map<std::int32_t, std::vector<std::int32_t>> kept_;  // of slots, the history whose ids the set has; or empty
};

namespace {

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
    require(input.slot >= -1 && input.slot < max_rows, "sampler: the slot {} is outside 0 to {}", input.slot,
            max_rows - 1);
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
      : context(of),
        vocabulary(ids),
        max_rows(rows),
        sampler(of.state().backend->make_sampler(ids, rows)),
        slots(ids, rows) {}

  Context context;
  std::int64_t vocabulary;
  std::int64_t max_rows;
  std::unique_ptr<kernels::SamplerBackend> sampler;
  SeenSlots slots;   // what the sampler's sets have
  std::mutex mutex;  // of both
};

Sampler::Sampler(const Context& context, std::int64_t vocabulary, std::int64_t max_rows) {
  require(vocabulary > 0 && vocabulary <= sampling::kMaxVocabulary, "sampler: a vocabulary of {} is outside 1 to {}",
          vocabulary, sampling::kMaxVocabulary);
  require(max_rows > 0 && max_rows <= kMaxSamplerRows, "sampler: max_rows = {} is outside 1 to {}", max_rows,
          kMaxSamplerRows);
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
  rows.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const SampleInput& input = inputs[i];
    rows.push_back({.logits = logits.data + static_cast<std::int64_t>(i) * logits.stride,
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
    impl_->slots.update(
        inputs, [&](std::span<const kernels::SeenIds> seen) { impl_->sampler->run(rows, seen, results, stream); });
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
