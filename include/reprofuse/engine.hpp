// Many requests at once over one model. Which of them share a pass, what is cached, speculated or preempted changes no
// bit of an answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprofuse/answer.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/model.hpp"
#include "reprofuse/sampling.hpp"

namespace reprofuse {

// The answers are a function of the model and of these fields, but for `priority`, which says only when.
struct Request {
  std::vector<std::int32_t> prompt = {};  // Checkpoint::encode_prompt() and encode_chat() make one of a text
  SamplingParams sampling = {};
  std::int64_t max_tokens = 256;  // 0: none, for the log-probabilities of the prompt alone
  int choices = 1;                // up to 128; choice i is the answer that seed + i gives
  int priority = 0;               // the lowest number goes first; among equals, the one that came first
  std::optional<std::vector<std::int32_t>> stop_tokens = {};  // any of them ends an answer and is not part of it; not
                                                              // given: those of the checkpoint
  std::vector<std::string> stop_strings = {};                 // the same, in the text
  bool keep_stop_string = false;                              // as part of the text
  bool skip_special_tokens = true;                            // in the text
  int logprobs = -1;  // how many of the most likely tokens to report with each token, 0 to 20; -1: not even its own
  int prompt_logprobs = -1;               // the same for the prompt's tokens
  DigestKind digest = DigestKind::kNone;  // a chain of hashes over the logits of every step
};

struct EngineOptions {
  // Of keys and values. They must hold one of the longest texts: Model::max_positions(), which LoadOptions can lower.
  // 0: for max_batch of these, but at most a quarter of the host's available memory, or nine tenths of a GPU's free
  // one.
  std::int64_t kv_bytes = 0;
  std::int64_t max_batch = 64;  // answers in one pass, up to 4096
  // Tokens in one pass, up to 65535; longer prompts take several. Raised to max_batch where below. 512 is for any
  // device; `reprofuse serve` takes 2048 on a GPU that has the memory, where prompts are then computed faster.
  std::int64_t max_rows = 512;
  std::int64_t max_queue = 1024;  // answers that may wait or run at the same time
  bool prefix_cache = true;       // keep the keys and values of texts that may come again
  int speculation = 0;            // tokens guessed ahead by prompt lookup and checked in one pass, up to 64
};

// One whole answer.
struct Completion {
  std::vector<std::int32_t> tokens;
  std::string text;                     // empty where the checkpoint has no tokenizer
  std::vector<Likelihood> likelihoods;  // one per token, with Request::logprobs
  std::vector<PromptToken> prompt;      // with Request::prompt_logprobs, of choice 0 alone
  FinishReason finish_reason = FinishReason::kStop;
  std::string digest;  // with Request::digest; empty where nothing was chosen (max_tokens = 0)
};

// The answers to one request, as a stream of updates. Dropping them before the end cancels the request. They keep the
// engine running, so the order of destruction does not matter. One thread at a time.
class REPROFUSE_API Answers {
 public:
  ~Answers();
  Answers(Answers&&) noexcept;
  Answers& operator=(Answers&&) noexcept;

  // The next update; none when no update came in time, or when every choice has ended. What goes wrong with an answer
  // while it is computed, such as a value that is not finite, is an End with kError.
  std::optional<Update> next(std::chrono::milliseconds timeout);
  // Every choice has ended and next() has returned its end, or the request was cancelled.
  bool finished() const;
  // No more updates come, and what is queued is dropped. Nothing happens when all have ended.
  void cancel();

 private:
  friend class Engine;
  struct Impl;
  explicit Answers(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A thread of its own computes. Any number of threads may use one engine. Copies share it; it stops when the last copy
// and the last Answers are gone.
class REPROFUSE_API Engine {
 public:
  explicit Engine(const Model& model, const EngineOptions& options = {});

  // Returns at once. Throws kInvalidArgument with what is wrong with the request, kBusy when max_queue answers are
  // under way, and, once the engine has failed, the code with which it did: kDevice or kInternal. Make a new one then.
  Answers submit(const Request& request) const;

  // Waits for the whole answer of every choice. Throws what submit() throws, and what an answer ended in: kNonFinite,
  // std::bad_alloc where there was no memory for it, or kDevice or kInternal where the engine failed.
  std::vector<Completion> generate(const Request& request) const;

  EngineStats stats() const;
  const Model& model() const;
  std::int64_t max_positions() const;  // the longest text: what the model and the KV cache hold

 private:
  friend class Answers;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace reprofuse
