#include "engine/engine_pass.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "ops/buffer.hpp"

namespace reprofuse::engine {
namespace {

// What the sampler is to do with the row of logits about the token at `position`.
SampleInput sample_input(const Job& job, std::int64_t position, std::span<const std::int32_t> text_with_guesses) {
  SampleInput input{.params = job.sampling(), .history = {}, .position = static_cast<std::uint64_t>(position)};
  if (position < static_cast<std::int64_t>(job.tokens().size())) {
    input.params = {};
    input.given = job.tokens()[static_cast<std::size_t>(position)];
    if (job.needs_prompt_logprob(position)) input.logprobs = job.request().prompt_logprobs;
  } else {
    if (!text_with_guesses.empty()) input.history = text_with_guesses.first(static_cast<std::size_t>(position));
    input.logprobs = job.request().logprobs;
  }
  return input;
}

}  // namespace

std::span<const std::int32_t> guess_next(std::span<const std::int32_t> text, std::int64_t count) {
  for (const std::size_t length : {3, 2}) {
    if (text.size() <= length) continue;
    const auto ending = text.last(length);
    const auto before = text.first(text.size() - 1);  // so that something follows what is found
    const auto found = std::find_end(before.begin(), before.end(), ending.begin(), ending.end());
    if (found == before.end()) continue;
    const auto next = text.subspan(static_cast<std::size_t>(found - before.begin()) + length);
    return next.first(std::min(next.size(), static_cast<std::size_t>(count)));
  }
  return {};
}

std::vector<Engine::JobChunk> Engine::plan_pass() {
  std::vector<JobChunk> pass;
  std::int64_t rows = runner_.limits().rows;
  std::int64_t logit_rows = runner_.limits().logit_rows;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    // Every job gets a row, so that a long prompt never holds up the answers beside it.
    const auto later_jobs = static_cast<std::int64_t>(running_.size() - i - 1);
    JobChunk chunk = next_tokens(running_[i], rows - later_jobs, logit_rows - later_jobs);
    while (!reserve(chunk)) {
      const bool was_itself = i + 1 == running_.size();
      preempt_last();
      if (was_itself) return pass;
    }
    rows -= chunk.rows();
    logit_rows -= chunk.logit_rows();
    pass.push_back(std::move(chunk));
  }
  return pass;
}

Engine::JobChunk Engine::next_tokens(Job& job, std::int64_t rows, std::int64_t logit_rows) {
  JobChunk chunk{.job = &job, .begin = job.cached.length(), .tokens = {}, .sampled = {}, .logit_values = {}};
  const auto pending = job.pending();
  const auto all = static_cast<std::int64_t>(pending.size());
  if (chunk.begin < job.single_tokens_until) rows = 1;
  std::int64_t count = std::min(rows, all);
  if (job.needs_prompt_logprob(std::min(chunk.begin + count, job.prompt_size() - 1))) {
    chunk.logits = model::Logits::kAll;
    count = std::min(count, logit_rows);
  } else if (count == all) {
    chunk.logits = model::Logits::kLast;
  }
  chunk.tokens.assign(pending.begin(), pending.begin() + count);
  if (all == 1 && chunk.logits == model::Logits::kLast) add_guesses(chunk, std::min(rows, logit_rows) - 1);
  return chunk;
}

void Engine::add_guesses(JobChunk& chunk, std::int64_t max_guesses) {
  const Job& job = *chunk.job;
  const std::int64_t useful = job.request().max_tokens - job.answer_size() - 1;
  const std::int64_t count = std::min({max_guesses, useful, std::int64_t{options_.speculation}});
  if (count <= 0) return;
  const auto guesses = guess_next(job.tokens(), count);
  chunk.tokens.insert(chunk.tokens.end(), guesses.begin(), guesses.end());
  chunk.guesses = static_cast<std::int64_t>(guesses.size());
  chunk.logits = model::Logits::kAll;
  counts_.guessed_tokens += chunk.guesses;
}

bool Engine::reserve(JobChunk& chunk) {
  model::Sequence& cached = chunk.job->cached;
  prefix_cache_.make_free(cache_.pages_for(cached.length() + chunk.rows()) -
                          static_cast<std::int64_t>(cached.pages().size()));
  return cached.reserve(chunk.rows());
}

// A value that is not finite fails the pass, but not the requests beside the one that caused it: each is run again
// alone, which gives the same bits. One that fails again goes on by single tokens, without guesses, and fails by the
// token that fails alone: a guess that would not have come true fails nobody, and the error is the same in any
// schedule.
void Engine::compute(std::span<JobChunk> pass) {
  try {
    run_and_sample(pass);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNonFinite) throw;
    for (JobChunk& chunk : pass) chunk.job->cached.truncate(chunk.begin);
    if (pass.size() > 1) {
      for (JobChunk& chunk : pass) compute(std::span(&chunk, 1));
    } else if (JobChunk& chunk = pass.front(); chunk.rows() == 1) {
      chunk.job->end_by_error(fmt::format("at token {} of the text: {}", chunk.begin, error.what()));
    } else {
      chunk.job->single_tokens_until = chunk.begin + chunk.rows();
      chunk.drop_tokens();
    }
  }
}

void Engine::run_and_sample(std::span<JobChunk> pass) {
  ++counts_.passes;
  std::vector<model::TokenChunk> chunks;
  std::vector<SampleInput> inputs;
  std::vector<std::vector<std::int32_t>> texts(pass.size());  // with guesses; for a penalty only
  for (std::size_t i = 0; i < pass.size(); ++i) {
    JobChunk& chunk = pass[i];
    chunks.push_back({&chunk.job->cached, chunk.tokens, chunk.logits});
    if (chunk.job->sampling().repetition_penalty != 1.0F) {
      texts[i].assign(chunk.job->tokens().begin(), chunk.job->tokens().begin() + chunk.begin);
      texts[i].insert(texts[i].end(), chunk.tokens.begin(), chunk.tokens.end());
    }
    for (std::int64_t row = 0; row < chunk.logit_rows(); ++row)
      inputs.push_back(sample_input(*chunk.job, chunk.predicted_position(row), texts[i]));
  }
  const ConstMatrix logits = runner_.run(chunks);
  if (inputs.empty()) return;
  const std::vector<SampleResult> sampled = sampler_.run(logits, inputs, runner_.stream());

  auto result = sampled.begin();
  const float* row = logits.data;
  for (JobChunk& chunk : pass) {
    const std::int64_t rows = chunk.logit_rows();
    chunk.sampled.assign(result, result + rows);
    if (chunk.job->request().digest) {
      chunk.logit_values.resize(static_cast<std::size_t>(rows * logits.cols));
      for (std::int64_t i = 0; i < rows; ++i)
        copy_to_host(model_.context(), chunk.logit_values.data() + i * logits.cols, row + i * logits.stride,
                     static_cast<std::size_t>(logits.cols) * sizeof(float));
    }
    result += rows;
    row += rows * logits.stride;
  }
}

void Engine::accept(JobChunk& chunk) {
  Job& job = *chunk.job;
  if (job.has_ended()) return;
  if (chunk.begin == 0 && job.needs_prompt_logprob(0)) job.report_prompt_logprob(0, std::nullopt);
  const auto known = static_cast<std::int64_t>(job.tokens().size());
  const auto vocabulary = static_cast<std::size_t>(model_.config().vocab_size);
  for (std::int64_t row = 0; row < chunk.logit_rows(); ++row) {
    const SampleResult& result = chunk.sampled[static_cast<std::size_t>(row)];
    const std::int64_t position = chunk.predicted_position(row);
    if (position < known) {
      if (job.needs_prompt_logprob(position))
        job.report_prompt_logprob(position, likelihood_of(result, job.request().prompt_logprobs));
      continue;
    }
    if (job.request().max_tokens == 0) {
      job.end_without_token();
      break;
    }
    std::span<const float> logits = chunk.logit_values;
    if (job.request().digest) logits = logits.subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
    ++counts_.generated_tokens;
    if (!job.append(result, logits)) break;
    const bool has_guess = position < chunk.begin + chunk.rows();
    if (!has_guess || chunk.tokens[static_cast<std::size_t>(position - chunk.begin)] != result.token) break;
    ++counts_.accepted_tokens;
  }
  job.cached.truncate(static_cast<std::int64_t>(job.tokens().size()) - 1);
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
