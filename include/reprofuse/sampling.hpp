// How tokens are chosen, and what is known of a token that was. Plain structs, for host and device alike.
#pragma once

#include <cstdint>

namespace reprofuse {

// A token is a function of its row of logits, of these and of its position. All are finite.
struct SamplingParams {
  float temperature = 0;         // at least 0; 0: the most likely token
  int top_k = 0;                 // at least 0; 0: all
  float top_p = 1;               // 0 to 1; 1: all
  float min_p = 0;               // 0 to 1; 0: all
  float repetition_penalty = 1;  // above 0, in a Request 0.01 to 100, lest logits overflow; 1: none
  std::uint64_t seed = 0;
};

inline constexpr int kMaxLogprobs = 20;

struct TokenLogprob {
  std::int32_t id = -1;
  float logprob = 0;
};

struct SampleResult {
  std::int32_t token = -1;
  std::int32_t not_finite = -1;  // the first id whose logit, or penalised logit, is not finite; then there is no token
  float logprob = 0;             // of `token`, by the logits as they came: no penalty, no temperature
  std::int32_t rank = 0;         // of `token` by the same logits; 1: the most likely. With logprobs only
  TokenLogprob top[kMaxLogprobs];     // as many as were asked for, the most likely first
  std::uint8_t logits_root[32] = {};  // of the Merkle tree over the row as it came, where it was asked for
};

}  // namespace reprofuse
