#include "engine/engine_pass.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "engine/prompt_lookup.hpp"
#include "ops/buffer.hpp"

namespace reprofuse::engine {
namespace {

// What the sampler is to do with the row of logits about the token at `position`.
SampleInput sample_input(const Job& job, std::int64_t position, std::span<const std::int32_t> text_with_guesses) {
  SampleInput input{.params = job.sampling(), .history = {}, .position = static_cast<std::uint64_t>(position)};
  if (position < static_cast<std::int64_t>(job.text().size())) {
    input.params = {};
    input.given = job.text()[static_cast<std::size_t>(position)];
    if (job.lacks_likelihood_of(position)) input.logprobs = job.asked().prompt_logprobs;
  } else {
    if (!text_with_guesses.empty()) input.history = text_with_guesses.first(static_cast<std::size_t>(position));
    input.logprobs = job.asked().logprobs;
  }
  return input;
}

}  // namespace

std::vector<Engine::Share> Engine::plan_pass() {
  std::vector<Share> pass;
  std::int64_t rows = runner_.limits().rows;
  std::int64_t logit_rows = runner_.limits().logit_rows;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    // Every job gets a row, so that a long prompt never holds up the answers beside it.
    const auto later_jobs = static_cast<std::int64_t>(running_.size() - i - 1);
    Share share = next_tokens(running_[i], rows - later_jobs, logit_rows - later_jobs);
    while (!reserve(share)) {
      const bool was_itself = i + 1 == running_.size();
      preempt_last();
      if (was_itself) return pass;
    }
    rows -= share.rows();
    logit_rows -= share.logit_rows();
    pass.push_back(std::move(share));
  }
  return pass;
}

Engine::Share Engine::next_tokens(Job& job, std::int64_t rows, std::int64_t logit_rows) {
  Share share{.job = &job, .begin = job.cached.length(), .tokens = {}, .sampled = {}, .logit_values = {}};
  const auto pending = job.pending();
  const auto all = static_cast<std::int64_t>(pending.size());
  if (share.begin < job.single_tokens_until) rows = 1;
  std::int64_t count = std::min(rows, all);
  if (job.lacks_likelihood_of(std::min(share.begin + count, job.prompt_size() - 1))) {
    share.logits = model::Logits::kAll;
    count = std::min(count, logit_rows);
  } else if (count == all) {
    share.logits = model::Logits::kLast;
  }
  share.tokens.assign(pending.begin(), pending.begin() + count);
  if (all == 1 && share.logits == model::Logits::kLast) add_guesses(share, std::min(rows, logit_rows) - 1);
  return share;
}

void Engine::add_guesses(Share& share, std::int64_t most) {
  const Job& job = *share.job;
  const std::int64_t useful = job.asked().max_tokens - job.answer_size() - 1;
  most = std::min({most, useful, std::int64_t{options_.speculation}});
  if (most <= 0) return;
  const auto guesses = guess_next(job.text(), most);
  share.tokens.insert(share.tokens.end(), guesses.begin(), guesses.end());
  share.guesses = static_cast<std::int64_t>(guesses.size());
  share.logits = model::Logits::kAll;
  counts_.guessed_tokens += share.guesses;
}

bool Engine::reserve(Share& share) {
  model::Sequence& cached = share.job->cached;
  prefix_cache_.make_free(cache_.pages_for(cached.length() + share.rows()) -
                          static_cast<std::int64_t>(cached.pages().size()));
  return cached.reserve(share.rows());
}

// A value that is not finite fails the pass, but not the requests beside the one that caused it: each is run again
// alone, which gives the same bits. One that fails again goes on by single tokens, without guesses, and fails by the
// token that fails alone: a guess that would not have come true fails nobody, and the error is the same in any
// schedule.
void Engine::compute(std::span<Share> pass) {
  try {
    run_and_sample(pass);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNonFinite) throw;
    for (Share& share : pass) share.job->cached.truncate(share.begin);
    if (pass.size() > 1) {
      for (Share& share : pass) compute(std::span(&share, 1));
    } else if (Share& share = pass.front(); share.rows() == 1) {
      share.job->end_by_error(fmt::format("at token {} of the text: {}", share.begin, error.what()));
    } else {
      share.job->single_tokens_until = share.begin + share.rows();
      share.drop_tokens();
    }
  }
}

void Engine::run_and_sample(std::span<Share> pass) {
  ++counts_.passes;
  std::vector<model::Part> parts;
  std::vector<SampleInput> inputs;
  std::vector<std::vector<std::int32_t>> texts(pass.size());  // with guesses; for a penalty only
  for (std::size_t i = 0; i < pass.size(); ++i) {
    Share& share = pass[i];
    parts.push_back({&share.job->cached, share.tokens, share.logits});
    if (share.job->sampling().repetition_penalty != 1.0F) {
      texts[i].assign(share.job->text().begin(), share.job->text().begin() + share.begin);
      texts[i].insert(texts[i].end(), share.tokens.begin(), share.tokens.end());
    }
    for (std::int64_t row = 0; row < share.logit_rows(); ++row)
      inputs.push_back(sample_input(*share.job, share.predicted_position(row), texts[i]));
  }
  const ConstMatrix logits = runner_.run(parts);
  if (inputs.empty()) return;
  const std::vector<SampleResult> sampled = sampler_.run(logits, inputs, runner_.stream());

  auto result = sampled.begin();
  const float* row = logits.data;
  for (Share& share : pass) {
    const std::int64_t rows = share.logit_rows();
    share.sampled.assign(result, result + rows);
    if (share.job->asked().digest) {
      share.logit_values.resize(static_cast<std::size_t>(rows * logits.cols));
      for (std::int64_t i = 0; i < rows; ++i)
        copy_to_host(model_.context(), share.logit_values.data() + i * logits.cols, row + i * logits.stride,
                     static_cast<std::size_t>(logits.cols) * sizeof(float));
    }
    result += rows;
    row += rows * logits.stride;
  }
}

void Engine::accept(Share& share) {
  Job& job = *share.job;
  if (job.has_ended()) return;
  if (share.begin == 0 && job.lacks_likelihood_of(0)) job.tell_prompt(0, std::nullopt);
  const auto known = static_cast<std::int64_t>(job.text().size());
  const auto vocabulary = static_cast<std::size_t>(model_.config().vocab_size);
  for (std::int64_t row = 0; row < share.logit_rows(); ++row) {
    const SampleResult& result = share.sampled[static_cast<std::size_t>(row)];
    const std::int64_t position = share.predicted_position(row);
    if (position < known) {
      if (job.lacks_likelihood_of(position))
        job.tell_prompt(position, likelihood_of(result, job.asked().prompt_logprobs));
      continue;
    }
    if (job.asked().max_tokens == 0) {
      job.end_without_token();
      break;
    }
    std::span<const float> logits = share.logit_values;
    if (job.asked().digest) logits = logits.subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
    ++counts_.generated_tokens;
    if (!job.take(result, logits)) break;
    const bool has_guess = position < share.begin + share.rows();
    if (!has_guess || share.tokens[static_cast<std::size_t>(position - share.begin)] != result.token) break;
    ++counts_.accepted_tokens;
  }
  job.cached.truncate(static_cast<std::int64_t>(job.text().size()) - 1);
  keep_full_pages(job);
  if (job.cached.length() + 1 >= job.prompt_size()) queue_siblings(job);
}

void Engine::queue_siblings(Job& job) {
  for (std::unique_ptr<Job>& sibling : std::exchange(job.siblings, {})) waiting_.insert(std::move(sibling));
}

void Engine::keep_full_pages(Job& job) {
  if (!options_.prefix_cache) return;
  const std::int64_t full = job.cached.length() / cache_.page_size();
  prefix_cache_.remember(job.cached, job.page_keys(full), std::exchange(job.kept_pages, full));
}

}  // namespace reprofuse::engine
