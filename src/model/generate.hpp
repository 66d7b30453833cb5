// One answer to one prompt: prefill in chunks, then a token at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/logits_digest.hpp"
#include "model/runner.hpp"
#include "reprofuse/sampler.hpp"

namespace reprofuse::model {

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  std::int64_t prefill_chunk = 512;       // tokens of the prompt per pass; no bit depends on it
  SamplingParams sampling;                // temperature 0: greedy
  bool digest = false;                    // chain the logits of every step
  std::vector<std::int32_t> stop_tokens;  // any of them ends the answer and is not part of it
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled"

struct GenerateResult {
  std::vector<std::int32_t> tokens;  // without the stop token
  FinishReason finish = FinishReason::kLength;
  std::string digest;      // of the logits of every step, hex; empty unless asked for
  std::int64_t steps = 0;  // rows of logits computed
  double prefill_seconds = 0.0;
  double decode_seconds = 0.0;
};

// Called with each token as it is chosen; false stops the answer there.
using OnToken = std::function<bool(std::int32_t token)>;

// Pages of the cache are taken as the text grows and given back at the end. Bits: tokens and digest are a function of
// the model, the prompt and the sampling alone.
GenerateResult generate(Runner& runner, KvCache& cache, std::span<const std::int32_t> prompt,
                        const GenerateOptions& options, const OnToken& on_token = {});

}  // namespace reprofuse::model
