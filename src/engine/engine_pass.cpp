// What a pass computes: the rows of each job, guesses, failures, and what was chosen.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "engine/engine.hpp"
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
    if (has_penalty(job)) input.history = text_with_guesses.first(static_cast<std::size_t>(position));
    input.slot = job.sampler_slot;
    input.logprobs = job.request().logprobs;
    input.logits_root = job.request().digest == DigestKind::kTree1;
    const auto known = job.known_answer(position - job.prompt_size());
    if (job.request().force_known_answer && !known.empty()) input.given = known.front();
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

// The rows of a pass that each job has for itself: one, so that all go on. Half of the others are shared equally by the
// c clients that have more tokens to compute, and by the jobs of each; but a job has max_rows / max_batch / c at least,
// so that of one client's, p tokens take at most p / (max_rows / max_batch) passes, rounded up. The first get the rest.
std::vector<Engine::PassRows> Engine::guaranteed_rows() const {
  const auto jobs = static_cast<std::int64_t>(running_.size());
  const auto rows_of_clients = [&](std::int64_t rows, const auto& takes_part) {
    std::map<const Client*, std::int64_t> of_clients;  // jobs of each; in the end, rows of each of its jobs
    for (std::int64_t i = 0; i < jobs; ++i) {
      const Job& job = running_[static_cast<std::size_t>(i)];
      if (takes_part(job)) ++of_clients[job.client.get()];
    }
    const auto clients = static_cast<std::int64_t>(of_clients.size());
    const std::int64_t others = rows - jobs;  // a pass has a row for each job at least
    for (auto& [client, count] : of_clients)
      count = 1 + std::max(others / options_.max_batch / clients, others / (2 * clients * count));
    return of_clients;
  };
  const auto is_prompt = [](const Job& job) { return job.pending().size() > 1; };
  const auto has_logprobs = [](const Job& job) { return !job.may_start_from_cache(); };
  const auto rows = rows_of_clients(runner_.limits().rows, is_prompt);
  const auto logit_rows = rows_of_clients(runner_.limits().logit_rows, has_logprobs);
  std::vector<PassRows> guaranteed;
  for (std::int64_t i = 0; i < jobs; ++i) {
    const Job& job = running_[static_cast<std::size_t>(i)];
    const auto guaranteed_of = [&](const auto& rows_of) {
      return std::min(static_cast<std::int64_t>(job.pending().size()), rows_of.at(job.client.get()));
    };
    guaranteed.push_back({.rows = is_prompt(job) ? guaranteed_of(rows) : 1,
                          .logit_rows = has_logprobs(job) ? guaranteed_of(logit_rows) : 1});
  }
  return guaranteed;
}

std::vector<Engine::JobChunk> Engine::plan_pass() {
  std::vector<JobChunk> pass;
  std::vector<PassRows> guaranteed = guaranteed_rows();
  PassRows left{runner_.limits().rows, runner_.limits().logit_rows};
  for (const PassRows& own : guaranteed) left = {left.rows - own.rows, left.logit_rows - own.logit_rows};
  const auto give_back = [&](const PassRows& own) { left = {left.rows + own.rows, left.logit_rows + own.logit_rows}; };
  for (std::size_t i = 0; i < running_.size(); ++i) {
    give_back(guaranteed[i]);
    JobChunk chunk = next_tokens(running_[i], left);
    while (!reserve(chunk)) {
      const std::size_t last = running_.size() - 1;
      preempt(running_.size() - 1);
      if (last == i) return pass;
      give_back(guaranteed[last]);
    }
    left = {left.rows - chunk.rows(), left.logit_rows - chunk.logit_rows()};
    pass.push_back(std::move(chunk));
  }
  return pass;
}

Engine::JobChunk Engine::next_tokens(Job& job, PassRows at_most) {
  JobChunk chunk{.job = &job, .begin = job.cached.length(), .tokens = {}, .sampled = {}, .logit_values = {}};
  const auto pending = job.pending();
  const auto all = static_cast<std::int64_t>(pending.size());
  auto [rows, logit_rows] = at_most;
  if (job.suspect == chunk.begin) rows = std::min<std::int64_t>(rows, 1);
  if (job.suspect > chunk.begin) rows = std::min(rows, job.suspect - chunk.begin);
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
  const auto known = job.known_answer(job.answer_size());
  const std::int64_t useful = job.request().max_tokens - job.answer_size() - 1;
  const std::int64_t wanted = known.empty() ? options_.speculation : static_cast<std::int64_t>(known.size());
  const std::int64_t count = std::min({max_guesses, useful, wanted});
  if (count <= 0) return;
  const auto guesses = known.empty() ? guess_next(job.tokens(), count) : known.first(static_cast<std::size_t>(count));
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

// The tokens that are suspected of failing are run alone, each once, so that nobody else waits for them twice.
void Engine::compute(std::vector<JobChunk>& pass) {
  const auto alone = std::stable_partition(pass.begin(), pass.end(),
                                           [](const JobChunk& chunk) { return chunk.job->suspect != chunk.begin; });
  compute_together({pass.begin(), alone});
  for (JobChunk& chunk : std::span(alone, pass.end())) compute_alone(chunk);
}

// A value that is not finite fails the pass, but not the requests beside the one that caused it: the error names the
// token, and the pass is run again, which gives the same bits, without that token and what follows it in its chunk.
// What else the same client has just asked waits for the next pass, so that others lose one pass to it and no more.
void Engine::compute_together(std::span<JobChunk> pass) {
  while (true) try {
      return run_and_sample(pass);
    } catch (const model::NonFiniteToken& failure) {
      std::int64_t index = failure.chunk();  // among those that have tokens
      const auto failed =
          std::ranges::find_if(pass, [&](const JobChunk& chunk) { return chunk.rows() > 0 && index-- == 0; });
      failed->cut_before(failure.token());
      if (failed->job->request().client.empty()) continue;
      for (JobChunk& chunk : pass)
        if (&chunk != &*failed && chunk.job->client == failed->job->client && chunk.job->answer_size() == 0)
          chunk.put_off();
    }
}

// One token, so that the error is the same in any schedule. Where the token was a guess that did not come true, there
// is none.
void Engine::compute_alone(JobChunk& chunk) {
  chunk.job->suspect = -1;
  try {
    run_and_sample({&chunk, 1});
  } catch (const model::NonFiniteToken& failure) {
    chunk.job->end_by_error(fmt::format("at token {} of the text: {}", chunk.begin, failure.what()));
  }
}

void Engine::run_and_sample(std::span<JobChunk> pass) {
  std::vector<model::TokenChunk> chunks;
  std::vector<SampleInput> inputs;
  std::vector<std::vector<std::int32_t>> guessed(pass.size());  // texts with their guesses, for a penalty only
  for (std::size_t i = 0; i < pass.size(); ++i) {
    JobChunk& chunk = pass[i];
    if (chunk.rows() == 0) continue;
    chunks.push_back({&chunk.job->cached, chunk.tokens, chunk.logits});
    std::span<const std::int32_t> text = chunk.job->tokens();
    if (chunk.guesses > 0 && has_penalty(*chunk.job)) {
      guessed[i].assign(text.begin(), text.begin() + chunk.begin);
      guessed[i].insert(guessed[i].end(), chunk.tokens.begin(), chunk.tokens.end());
      text = guessed[i];
    }
    for (std::int64_t row = 0; row < chunk.logit_rows(); ++row)
      inputs.push_back(sample_input(*chunk.job, chunk.predicted_position(row), text));
  }
  if (chunks.empty()) return;
  ++counts_.passes;
  const ConstMatrix logits = runner_.run(chunks);
  if (inputs.empty()) return;
  const std::vector<SampleResult> sampled = sampler_.run_each(logits, inputs, runner_.stream());

  auto result = sampled.begin();
  const float* row = logits.data;
  for (JobChunk& chunk : pass) {
    const std::int64_t rows = chunk.logit_rows();
    chunk.sampled.assign(result, result + rows);
    if (chunk.job->request().digest == DigestKind::kChain1) {
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
    if (result.not_finite >= 0) {
      job.end_by_error(fmt::format("at token {} of the text: the logit of id {} is not finite{}", position - 1,
                                   result.not_finite, has_penalty(job) ? " after the repetition penalty" : ""));
      break;
    }
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
    if (!logits.empty()) logits = logits.subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
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
  for (std::unique_ptr<Job>& sibling : std::exchange(job.siblings, {})) {
    sibling->waited = job.waited;
    sibling->effective_priority = job.effective_priority;
    waiting_.add(std::move(sibling));
  }
}

void Engine::keep_full_pages(Job& job) {
  if (!options_.prefix_cache) return;
  const std::int64_t full = job.cached.length() / cache_.page_size();
  prefix_cache_.remember(job.cached, job.page_keys(full), job.kept_pages);
  job.kept_pages = full;
}

}  // namespace reprofuse::engine
