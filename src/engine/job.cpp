#include "engine/job.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace reprofuse::engine {

AnswerText::AnswerText(const std::optional<Tokenizer>& tokenizer, std::vector<std::string> stop_strings,
                       bool keep_stop_string, bool skip_special_tokens)
    : stop_strings_(std::move(stop_strings)), keep_stop_string_(keep_stop_string) {
  if (tokenizer) detokenizer_.emplace(*tokenizer, skip_special_tokens);
}

std::string AnswerText::push(std::int32_t token) {
  if (!detokenizer_) return {};
  held_ += detokenizer_->push(token);
  if (find_stop_string()) return std::exchange(held_, {});
  const std::size_t size = certain();
  std::string text = held_.substr(0, size);
  held_.erase(0, size);
  return text;
}

std::string AnswerText::flush() {
  if (!detokenizer_ || stopped_by_) return {};
  held_ += detokenizer_->flush();
  return std::exchange(held_, {});
}

bool AnswerText::find_stop_string() {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    const std::size_t at = held_.find(stop);
    if (at >= first) continue;
    first = at;
    stopped_by_ = stop;
  }
  if (!stopped_by_) return false;
  held_.resize(first + (keep_stop_string_ ? stopped_by_->size() : 0));
  return true;
}

std::size_t AnswerText::certain() const {
  const auto may_start_at = [&](std::size_t at) {
    const std::string_view rest = std::string_view(held_).substr(at);
    return std::any_of(stop_strings_.begin(), stop_strings_.end(),
                       [&](const std::string& stop) { return std::string_view(stop).starts_with(rest); });
  };
  std::size_t at = 0;
  while (at < held_.size() && !may_start_at(at)) ++at;
  return at;
}

Likelihood likelihood_of(const SampleResult& result, int count) {
  return {.logprob = result.logprob,
          .rank = result.rank,
          .top = std::vector<TokenLogprob>(result.top, result.top + std::max(count, 0))};
}

Job::Job(RequestId id, int choice, std::shared_ptr<const Request> request, std::shared_ptr<Client> asking,
         std::uint64_t arrival, model::KvCache& cache, const std::optional<Tokenizer>& tokenizer)
    : client(std::move(asking)),
      cached(cache),
      effective_priority(request->priority),
      id_(id),
      choice_(choice),
      arrival_(arrival),
      request_(std::move(request)),
      sampling_(request_->sampling),
      tokens_(request_->prompt),
      answer_text_(tokenizer, request_->stop_strings, request_->keep_stop_string, request_->skip_special_tokens),
      keys_(cache.page_size(), request_->cache_salt),
      digest_(request_->digest) {
  sampling_.seed += static_cast<std::uint64_t>(choice);
}

void Job::report_prompt_logprob(std::int64_t position, std::optional<Likelihood> likelihood) {
  update_.prompt.push_back({request_->prompt[static_cast<std::size_t>(position)], std::move(likelihood)});
  reported_prompt_tokens_ = position + 1;
}

bool Job::append(const SampleResult& chosen, std::span<const float> logits) {
  if (request_->digest == DigestKind::kTree1) digest_.add_root(chosen.logits_root);
  if (request_->digest == DigestKind::kChain1) digest_.add_row(logits);
  if (std::ranges::find(request_->stop_tokens, chosen.token) != request_->stop_tokens.end()) {
    end(FinishReason::kStop);
    update_.end->stop_token = chosen.token;
    std::ranges::copy(chosen.logits_root, update_.end->logits_root.begin());
    return false;
  }
  tokens_.push_back(chosen.token);
  AnswerToken token{.id = chosen.token, .text = answer_text_.push(chosen.token), .likelihood = {}, .digest = {}};
  if (request_->logprobs >= 0) token.likelihood = likelihood_of(chosen, request_->logprobs);
  if (request_->digest != DigestKind::kNone) token.digest = digest_.text();
  std::ranges::copy(chosen.logits_root, token.logits_root.begin());
  update_.tokens.push_back(std::move(token));
  if (answer_text_.stopped_by()) {
    end(FinishReason::kStop);
    update_.end->stop_string = answer_text_.stopped_by();
  } else if (answer_size() == request_->max_tokens) {
    end(FinishReason::kLength);
  }
  return !update_.end;
}

void Job::end_without_token() {
  end(FinishReason::kLength);
}

void Job::end_by_error(const std::string& why) {
  end(FinishReason::kError);
  update_.end->error = why;
  update_.end->at_fault = true;
  update_.end->error_code = ErrorCode::kNonFinite;
}

void Job::end(FinishReason reason) {
  update_.end.emplace();
  update_.end->finish_reason = reason;
  update_.end->text = answer_text_.flush();
  if (request_->digest != DigestKind::kNone) update_.end->digest = digest_.text();
}

std::optional<Update> Job::take_update() {
  if (update_.prompt.empty() && update_.tokens.empty() && !update_.end) return std::nullopt;
  update_.choice = choice_;
  update_.cached_prompt_tokens = cached_prompt_tokens;
  update_.at = std::chrono::steady_clock::now();
  return std::exchange(update_, {});
}

std::size_t JobList::first() const {
  return static_cast<std::size_t>(std::min_element(jobs_.begin(), jobs_.end(), goes_first) - jobs_.begin());
}

std::unique_ptr<Job> JobList::take(std::size_t index) {
  std::unique_ptr<Job> job = std::move(jobs_[index]);
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
  return job;
}

void JobList::sort() {
  std::sort(jobs_.begin(), jobs_.end(), goes_first);
}

bool JobList::goes_first(const std::unique_ptr<Job>& a, const std::unique_ptr<Job>& b) {
  return a->order() < b->order();
}

}  // namespace reprofuse::engine
