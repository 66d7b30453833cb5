// What a client wants of an engine, and the updates that it gets. Words that the engine uses in one sense each:
// request   what a client asks for: one prompt, and one or more choices
// choice    one answer to a request: number i is the answer of seed + i
// job       the engine's work on one choice (job.hpp)
// pass      one forward pass over the model, for many jobs at once
// chunk     the next tokens of one job in a pass: one in decode, many in a prefill
// update    what is new of one choice after a pass
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/sampler.hpp"

namespace reprofuse::engine {

// The answers are a function of the model and of these fields, but for `priority`, which says only when.
struct Request {
  std::vector<std::int32_t> prompt;
  SamplingParams sampling;
  std::int64_t max_tokens = 16;
  int choices = 1;                        // choice i is the answer that seed + i gives
  int priority = 0;                       // the least goes first; among equals, the one that came first
  std::vector<std::int32_t> stop_tokens;  // any of them ends an answer and is not part of it
  std::vector<std::string> stop_strings;  // the same, in the text
  bool keep_stop_string = false;          // as part of the text
  bool skip_special_tokens = true;        // in the text
  int logprobs = -1;         // how many of the most likely tokens to report with each token; -1: no log-probability
  int prompt_logprobs = -1;  // the same for the prompt's tokens
  bool digest = false;       // chain the logits of every step
};

struct Likelihood {
  float logprob = 0;
  std::int64_t rank = 0;          // 1: the most likely
  std::vector<TokenLogprob> top;  // the most likely first
};

// A token of an answer.
struct AnswerToken {
  std::int32_t id = -1;
  std::string text;                      // what is certain now: it may be part of the text of tokens before
  std::optional<Likelihood> likelihood;  // with logprobs
  std::string digest;                    // of all steps so far, with Request::digest
};

struct PromptToken {
  std::int32_t id = -1;
  std::optional<Likelihood> likelihood;  // none for the first token
};

enum class FinishReason { kStop, kLength, kCancelled, kError };
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct End {
  FinishReason finish_reason = FinishReason::kStop;
  std::string text;                        // what was held back until now
  std::optional<std::int32_t> stop_token;  // which one ended it,
  std::optional<std::string> stop_string;  // or which of these
  std::string digest;                      // of all steps, the one that chose the stop token included
  std::string error;                       // kError: why
  bool by_stop = false;                    // kError: the service was stopped, and the answer is not at fault
};

// What is new of one choice. It may end without a token.
struct Update {
  int choice = 0;
  std::vector<PromptToken> prompt;  // with prompt_logprobs, of choice 0 alone: the next of its tokens
  std::vector<AnswerToken> tokens;
  std::optional<End> end;                 // nothing comes after it
  std::int64_t cached_prompt_tokens = 0;  // of the prompt, those whose keys and values were there already
  std::chrono::steady_clock::time_point at;
};

}  // namespace reprofuse::engine
