// What an engine tells while it answers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/error.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/sampling.hpp"

namespace reprofuse {

// By the logits as they came: no penalty, no temperature.
struct Likelihood {
  float logprob = 0;              // natural logarithm
  std::int64_t rank = 0;          // 1: the most likely
  std::vector<TokenLogprob> top;  // the most likely first
};

// What a digest of an answer chains: the Merkle roots of its rows of logits, which devices compute beside the sampler,
// or the rows themselves, which have to cross to the host for it. Digests of kTree1 begin with "tree-1:".
enum class DigestKind { kNone, kTree1, kChain1 };
REPROFUSE_API std::string_view digest_kind_name(DigestKind kind);  // "none", "tree-1", "chain-1"
REPROFUSE_API DigestKind digest_kind_of(std::string_view name);    // throws kInvalidArgument

// Of a row of logits: the root of the Merkle tree that digests of kTree1 chain.
using LogitsRoot = std::array<std::uint8_t, 32>;

// A token of an answer.
struct AnswerToken {
  std::int32_t id = -1;
  std::string text;                      // what is certain now: it may be part of the text of tokens before
  std::optional<Likelihood> likelihood;  // with Request::logprobs
  std::string digest;                    // of all steps so far, with Request::digest
  LogitsRoot logits_root = {};           // of the row that chose it, with DigestKind::kTree1
};

struct PromptToken {
  std::int32_t id = -1;
  std::optional<Likelihood> likelihood;  // none for the first token
};

// kCancelled is what the tool calls an answer that it gave up before it ended: no End of an engine says it.
enum class FinishReason { kStop, kLength, kCancelled, kError };
REPROFUSE_API std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct End {
  FinishReason finish_reason = FinishReason::kStop;
  std::string text;                        // what was held back until now
  std::optional<std::int32_t> stop_token;  // which one ended it,
  std::optional<std::string> stop_string;  // or which of these
  std::string digest;                      // of all steps, the one that chose the stop token included; empty: no step
  LogitsRoot logits_root = {};             // of the row that chose the stop token, with DigestKind::kTree1
  std::string error;                       // kError: why
  // kError: the kind of failure, of which at most one is set. None: the engine has failed, and takes no more requests.
  bool by_stop = false;    // the engine was stopped by its server; does not happen with reprofuse::Engine
  bool by_memory = false;  // there was no memory for it; it may be asked for again
  bool at_fault = false;   // the answer's own: it met a value that is not finite, and would again
  ErrorCode error_code = ErrorCode::kInternal;  // kError: kNonFinite where at_fault; kDevice or kInternal
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

struct EngineStats {
  std::int64_t running = 0;  // answers in the KV cache
  std::int64_t waiting = 0;
  std::int64_t pages = 0;
  std::int64_t pages_in_use = 0;
  // Since the start:
  std::int64_t passes = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t queried_prompt_tokens = 0;  // of these, those looked for in the prefix cache
  std::int64_t cached_prompt_tokens = 0;   // of these, those found
  std::int64_t generated_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t guessed_tokens = 0;
  std::int64_t accepted_tokens = 0;  // of these
};

}  // namespace reprofuse
