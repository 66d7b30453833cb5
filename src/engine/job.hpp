// One answer in the making: a choice of a request, its text so far, and what the KV cache holds of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/answer_text.hpp"
#include "engine/prefix_cache.hpp"
#include "engine/request.hpp"
#include "model/generate.hpp"
#include "model/sequence.hpp"

namespace reprofuse::engine {

using RequestId = std::uint64_t;

class Job {
 public:
  Job(RequestId id, int choice, std::shared_ptr<const Request> asked, std::uint64_t arrival, model::KvCache& cache,
      const std::optional<text::Tokenizer>& tokenizer);

  RequestId id() const { return id_; }
  int choice() const { return choice_; }
  const Request& asked() const { return *asked_; }
  const SamplingParams& sampling() const { return sampling_; }
  bool goes_before(const Job& other) const { return order() < other.order(); }
  bool is_more_urgent_than(const Job& other) const { return asked_->priority < other.asked_->priority; }

  std::span<const std::int32_t> text() const { return text_; }  // the prompt, then the answer
  std::int64_t prompt_size() const { return static_cast<std::int64_t>(asked_->prompt.size()); }
  std::int64_t answer_size() const { return static_cast<std::int64_t>(text_.size()) - prompt_size(); }
  // What the cache lacks of the text. One token: a decode step. Many: a prompt, or a text that was preempted.
  std::span<const std::int32_t> pending() const { return text().subspan(static_cast<std::size_t>(cached.length())); }

  // Tokens of the prompt whose likelihoods were asked for and are not told yet; the first has none.
  bool lacks_likelihood_of(std::int64_t position) const {
    return choice_ == 0 && asked_->prompt_logprobs >= 0 && position >= told_prompt_tokens_ && position < prompt_size();
  }
  // Whether pages that others computed may stand for the start of the text: not when its likelihoods are wanted.
  bool may_start_from_cache() const { return !lacks_likelihood_of(prompt_size() - 1); }
  void tell_prompt(std::int64_t position, std::optional<Likelihood> likelihood);

  // Adds the token that a step chose. False when the answer has ended by it.
  bool take(const SampleResult& chosen, std::span<const float> logits);
  void end_without_token();  // max_tokens = 0
  void end_by_error(const std::string& why);

  bool has_ended() const { return news_.end.has_value(); }

  // What is new since the last call.
  std::optional<Update> news();

  std::span<const PageKey> page_keys(std::int64_t pages) { return keys_.first(pages, text_); }

  model::Sequence cached;
  std::int64_t kept_pages = 0;                 // the first of its pages, which the prefix cache knows
  std::int64_t single_tokens_until = 0;        // up to there it goes by single tokens, to find the one that fails
  bool was_started = false;                    // at least once; it may have been preempted since
  std::int64_t cached_prompt_tokens = 0;       // that the prefix cache had when it was first started
  std::vector<std::unique_ptr<Job>> siblings;  // the other choices, which wait for this one's prompt

 private:
  std::tuple<int, std::uint64_t, int> order() const { return {asked_->priority, arrival_, choice_}; }
  void end(Ending ending);

  RequestId id_;
  int choice_;
  std::uint64_t arrival_;
  std::shared_ptr<const Request> asked_;
  SamplingParams sampling_;
  std::vector<std::int32_t> text_;
  AnswerText answer_text_;
  PageKeys keys_;
  model::LogitsDigest digest_;
  std::int64_t told_prompt_tokens_ = 0;
  Update news_;
};

// Likelihoods as the sampler tells them, with the `count` most likely tokens.
Likelihood likelihood_of(const SampleResult& result, int count);

// Jobs in the order in which they are served.
class JobList {
 public:
  bool empty() const { return jobs_.empty(); }
  std::size_t size() const { return jobs_.size(); }
  Job& operator[](std::size_t index) const { return *jobs_[index]; }
  Job& front() const { return *jobs_.front(); }
  Job& back() const { return *jobs_.back(); }

  void insert(std::unique_ptr<Job> job);
  std::unique_ptr<Job> take_front();
  std::unique_ptr<Job> take_back();
  template <class Condition>
  void erase_if(const Condition& condition) {
    std::erase_if(jobs_, [&](const std::unique_ptr<Job>& job) { return condition(*job); });
  }

 private:
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace reprofuse::engine
