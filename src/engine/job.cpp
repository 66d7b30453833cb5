#include "engine/job.hpp"

#include <algorithm>

namespace reprofuse::engine {

std::string_view ending_name(Ending ending) {
  switch (ending) {
    case Ending::kStop: return "stop";
    case Ending::kLength: return "length";
    case Ending::kError: break;
  }
  return "error";
}

Likelihood likelihood_of(const SampleResult& result, int count) {
  return {.logprob = result.logprob,
          .rank = result.rank,
          .top = std::vector<TokenLogprob>(result.top, result.top + std::max(count, 0))};
}

Job::Job(RequestId id, int choice, std::shared_ptr<const Request> asked, std::uint64_t arrival, model::KvCache& cache,
         const std::optional<text::Tokenizer>& tokenizer)
    : cached(cache),
      id_(id),
      choice_(choice),
      arrival_(arrival),
      asked_(std::move(asked)),
      sampling_(asked_->sampling),
      text_(asked_->prompt),
      answer_text_(tokenizer, asked_->stop_strings, asked_->keep_stop_string, asked_->skip_special_tokens),
      keys_(cache.page_size()) {
  sampling_.seed += static_cast<std::uint64_t>(choice);
}

void Job::tell_prompt(std::int64_t position, std::optional<Likelihood> likelihood) {
  news_.prompt.push_back({asked_->prompt[static_cast<std::size_t>(position)], std::move(likelihood)});
  told_prompt_tokens_ = position + 1;
}

bool Job::take(const SampleResult& chosen, std::span<const float> logits) {
  if (asked_->digest) digest_.add(logits);
  if (std::ranges::find(asked_->stop_tokens, chosen.token) != asked_->stop_tokens.end()) {
    end(Ending::kStop);
    news_.end->stop_token = chosen.token;
    return false;
  }
  text_.push_back(chosen.token);
  AnswerToken token{.id = chosen.token, .text = answer_text_.push(chosen.token), .likelihood = {}, .digest = {}};
  if (asked_->logprobs >= 0) token.likelihood = likelihood_of(chosen, asked_->logprobs);
  if (asked_->digest) token.digest = digest_.hex();
  news_.tokens.push_back(std::move(token));
  if (answer_text_.stopped_by()) {
    end(Ending::kStop);
    news_.end->stop_string = answer_text_.stopped_by();
  } else if (answer_size() == asked_->max_tokens) {
    end(Ending::kLength);
  }
  return !news_.end;
}

void Job::end_without_token() {
  end(Ending::kLength);
}

void Job::end_by_error(const std::string& why) {
  end(Ending::kError);
  news_.end->error = why;
}

void Job::end(Ending ending) {
  news_.end.emplace();
  news_.end->ending = ending;
  news_.end->text = answer_text_.flush();
  if (asked_->digest) news_.end->digest = digest_.hex();
}

std::optional<Update> Job::news() {
  if (news_.prompt.empty() && news_.tokens.empty() && !news_.end) return std::nullopt;
  news_.choice = choice_;
  news_.cached_prompt_tokens = cached_prompt_tokens;
  news_.at = std::chrono::steady_clock::now();
  return std::exchange(news_, {});
}

void JobList::insert(std::unique_ptr<Job> job) {
  const auto place =
      std::upper_bound(jobs_.begin(), jobs_.end(), job,
                       [](const std::unique_ptr<Job>& a, const std::unique_ptr<Job>& b) { return a->goes_before(*b); });
  jobs_.insert(place, std::move(job));
}

std::unique_ptr<Job> JobList::take_front() {
  std::unique_ptr<Job> job = std::move(jobs_.front());
  jobs_.erase(jobs_.begin());
  return job;
}

std::unique_ptr<Job> JobList::take_back() {
  std::unique_ptr<Job> job = std::move(jobs_.back());
  jobs_.pop_back();
  return job;
}

}  // namespace reprofuse::engine
