// What a client wants of an engine, and the updates that it gets. Words that the engine uses in one sense each:
// request   what a client asks for: one prompt, and one or more choices
// choice    one answer to a request: number i is the answer of seed + i
// job       the engine's work on one choice (job.hpp)
// pending   tokens of a job that the KV cache lacks
// batch     the jobs that run: up to max_batch; the others wait (a kernels::Batch is what one pass computes)
// pass      one forward pass over the model, for many jobs at once
// row       one token in a pass, and what is computed of it
// chunk     the next tokens of one job in a pass: one in decode, many in a prefill
// slot      where the sampler keeps which ids the text of one job has
// quota     the places of a batch that a client has before others, however urgent theirs are
// share     the outputs that one rank of several computes (model/team.hpp)
// update    what is new of one choice after a pass
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprofuse/answer.hpp"
#include "reprofuse/sampler.hpp"

namespace reprofuse::engine {

// The answers are a function of the model and of these fields, but for `client`, `priority`, `cache_salt` and, unless
// it is forced, `known_answer`, which say only when.
struct Request {
  std::vector<std::int32_t> prompt;
  SamplingParams sampling;
  std::int64_t max_tokens = 16;           // the library, the server and the tool have defaults of their own
  int choices = 1;                        // choice i is the answer that seed + i gives
  int priority = 0;                       // lowest first within the client's quota; among equals clients take turns
  std::string client = {};                // who asks; clients take turns. Empty: nobody in particular
  std::string cache_salt = {};            // only requests of one salt share the pages of the prefix cache
  std::vector<std::int32_t> stop_tokens;  // any of them ends an answer and is not part of it
  std::vector<std::string> stop_strings;  // the same, in the text
  bool keep_stop_string = false;          // as part of the text
  bool skip_special_tokens = true;        // in the text
  int logprobs = -1;         // how many of the most likely tokens to report with each token; -1: no log-probability
  int prompt_logprobs = -1;  // the same for the prompt's tokens
  DigestKind digest = DigestKind::kNone;  // over the logits of every step
  // The first tokens of the answer, where they are known: they are computed many at a time, as a prompt is, and count
  // as far as the sampler chooses them too.
  std::vector<std::int32_t> known_answer = {};
  bool force_known_answer = false;  // they count whatever the sampler would choose
};

inline constexpr int kMaxChoices = 128;  // of a request

// An engine's updates are those of the public interface.
using reprofuse::AnswerToken;
using reprofuse::DigestKind;
using reprofuse::End;
using reprofuse::EngineStats;
using reprofuse::finish_reason_name;
using reprofuse::FinishReason;
using reprofuse::Likelihood;
using reprofuse::PromptToken;
using reprofuse::Update;

// That it takes in memory.
inline std::size_t bytes_of(const Update& update) {
  const auto bytes_of_top = [](const std::optional<Likelihood>& likelihood) {
    return likelihood ? likelihood->top.size() * sizeof(TokenLogprob) : 0;
  };
  std::size_t bytes = sizeof(Update);
  for (const PromptToken& token : update.prompt) bytes += sizeof token + bytes_of_top(token.likelihood);
  for (const AnswerToken& token : update.tokens)
    bytes += sizeof token + token.text.size() + token.digest.size() + bytes_of_top(token.likelihood);
  if (update.end) bytes += update.end->text.size();
  return bytes;
}

}  // namespace reprofuse::engine
