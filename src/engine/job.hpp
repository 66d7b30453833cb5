// An answer in progress: one choice of a request, its tokens so far, how many of them the KV cache holds, and its text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/prefix_cache.hpp"
#include "engine/request.hpp"
#include "model/kv_cache.hpp"
#include "model/logits_digest.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::engine {

// The text of an answer as its tokens come, and where a stop string ends it.
class AnswerText {
 public:
  // Without a tokenizer there is no text.
  AnswerText(const std::optional<Tokenizer>& tokenizer, std::vector<std::string> stop_strings, bool keep_stop_string,
             bool skip_special_tokens);

  // What the token adds to the text, less what may turn out to be the start of a stop string. A stop string that the
  // token completes ends the text before it (or after it, when it is kept); of several, the one that starts first.
  std::string push(std::int32_t token);
  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

  // What was held back, once it is certain that no token follows.
  std::string flush();

 private:
  bool find_stop_string();
  std::size_t certain() const;  // bytes of held_ that no stop string can start in

  std::optional<text::StreamDetokenizer> detokenizer_;
  std::vector<std::string> stop_strings_;
  bool keep_stop_string_;
  std::string held_;
  std::optional<std::string> stopped_by_;
};

using RequestId = std::uint64_t;

// Who asks. Its jobs take turns with those of other clients.
struct Client {
  std::int64_t running = 0;        // jobs
  std::uint64_t last_started = 0;  // of all starts, the number of its last one; 0: none yet
};

class Job {
 public:
  Job(RequestId id, int choice, std::shared_ptr<const Request> request, std::shared_ptr<Client> asking,
      std::uint64_t arrival, model::KvCache& cache, const std::optional<Tokenizer>& tokenizer);

  RequestId id() const { return id_; }
  int choice() const { return choice_; }
  const Request& request() const { return *request_; }
  const SamplingParams& sampling() const { return sampling_; }
  // Jobs run in ascending order. Those within their client's quota come before all beyond a quota, whatever their
  // priority.
  std::tuple<bool, int, std::int64_t, std::uint64_t, std::uint64_t, int> order() const {
    return {is_beyond_quota, effective_priority, turn, client->last_started, arrival_, choice_};
  }
  // Whether it may take the other's place. That of its own client's, if it is more urgent; that of another's, if that
  // client has more than its quota, or else if it is more urgent, or its client has fewer places.
  bool may_displace(const Job& other) const {
    if (client == other.client) return effective_priority < other.effective_priority;
    return std::tuple(is_beyond_quota, effective_priority, turn) <
           std::tuple(other.is_beyond_quota, other.effective_priority, other.turn);
  }

  std::span<const std::int32_t> tokens() const { return tokens_; }  // the prompt, then the answer
  std::int64_t prompt_size() const { return static_cast<std::int64_t>(request_->prompt.size()); }
  std::int64_t answer_size() const { return static_cast<std::int64_t>(tokens_.size()) - prompt_size(); }
  // What is known of the answer from this token on.
  std::span<const std::int32_t> known_answer(std::int64_t begin) const {
    const std::span<const std::int32_t> all = request_->known_answer;
    return all.subspan(std::min(all.size(), static_cast<std::size_t>(begin)));
  }
  // The tokens that the cache lacks. One: a decode step. Many: a prompt, or a job that was preempted.
  std::span<const std::int32_t> pending() const { return tokens().subspan(static_cast<std::size_t>(cached.length())); }

  // Whether the request wants the log-probability of this token of the prompt, and it was not reported yet.
  bool needs_prompt_logprob(std::int64_t position) const {
    return choice_ == 0 && request_->prompt_logprobs >= 0 && position >= reported_prompt_tokens_ &&
           position < prompt_size();
  }
  // Whether it may start from pages of the prefix cache: not while log-probabilities of its prompt are wanted.
  bool may_start_from_cache() const { return !needs_prompt_logprob(prompt_size() - 1); }
  void report_prompt_logprob(std::int64_t position, std::optional<Likelihood> likelihood);

  // Appends the token that a step chose; `logits` are for a digest of the kind chain-1. False when the answer has
  // ended.
  bool append(const SampleResult& chosen, std::span<const float> logits);
  void end_without_token();  // max_tokens = 0
  void end_by_error(const std::string& why);

  bool has_ended() const { return update_.end.has_value(); }

  // What is new since the last call; none: nothing.
  std::optional<Update> take_update();

  std::span<const PageKey> page_keys(std::int64_t pages) { return keys_.first(pages, tokens_); }

  const std::shared_ptr<Client> client;
  model::Sequence cached;
  std::int64_t kept_pages = 0;     // the first of its pages, which the prefix cache knows
  std::int64_t suspect = -1;       // the token with which a pass failed: it is run alone. -1: none
  std::int32_t sampler_slot = -1;  // of a job that runs and has a penalty: the sampler keeps there which ids it has
  bool was_started = false;        // at least once; it may have been preempted since
  std::int64_t waited = 0;         // passes without it
  std::int64_t turn = 0;           // how many jobs of its client go before it
  bool is_beyond_quota = false;    // so many that others could not have as many places
  // The request's priority, or the most urgent one once it has waited long enough. The lowest number goes first.
  int effective_priority;
  std::int64_t cached_prompt_tokens = 0;       // found in the prefix cache when it was first started
  std::vector<std::unique_ptr<Job>> siblings;  // the other choices, which wait for this one's prompt

 private:
  void end(FinishReason reason);

  RequestId id_;
  int choice_;
  std::uint64_t arrival_;
  std::shared_ptr<const Request> request_;
  SamplingParams sampling_;
  std::vector<std::int32_t> tokens_;
  AnswerText answer_text_;
  PageKeys keys_;
  model::LogitsDigest digest_;
  std::int64_t reported_prompt_tokens_ = 0;
  Update update_;
};

// Whether the sampler looks at its tokens so far.
inline bool has_penalty(const Job& job) {
  return job.sampling().repetition_penalty != 1.0F;
}

// From a result of the sampler, with the `count` most likely tokens.
Likelihood likelihood_of(const SampleResult& result, int count);

class JobList {
 public:
  bool empty() const { return jobs_.empty(); }
  std::size_t size() const { return jobs_.size(); }
  Job& operator[](std::size_t index) const { return *jobs_[index]; }

  void reserve(std::size_t jobs) { jobs_.reserve(jobs); }  // so that add() allocates nothing
  void add(std::unique_ptr<Job> job) { jobs_.push_back(std::move(job)); }
  std::size_t first() const;  // the index of the one that goes first
  std::unique_ptr<Job> take(std::size_t index);
  void sort();  // into the order in which they are served
  template <class Condition>
  void erase_if(const Condition& condition) {
    std::erase_if(jobs_, [&](const std::unique_ptr<Job>& job) { return condition(*job); });
  }

 private:
  static bool goes_first(const std::unique_ptr<Job>& a, const std::unique_ptr<Job>& b);

  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace reprofuse::engine
