// From logits to tokens. A token is a function of its row of logits and of its request, and of nothing else: not of
// its place in a batch, the device or the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reprofuse/context.hpp"
#include "reprofuse/export.hpp"
#include "reprofuse/sampling.hpp"
#include "reprofuse/types.hpp"

namespace reprofuse {

// Throws kInvalidArgument with the value and the allowed range.
REPROFUSE_API void check_sampling_params(const SamplingParams& params);

struct SampleInput {
  SamplingParams params = {};
  std::span<const std::int32_t> history = {};  // ids in the sequence so far, in any order; read for a penalty only
  std::uint64_t position = 0;                  // of the token to be chosen
  std::int32_t given = -1;                     // a token that is chosen already; only its likelihood is asked for
  int logprobs = -1;         // how many of the most likely tokens to report; -1: not even the chosen one's
  bool logits_root = false;  // tell the root of the row, as digests of answers chain it
  // 0 to max_rows - 1, or -1: none. Name the same slot in each step of one text: then only ids added since are sent to
  // the device. A matter of speed alone: another text's slot, or none, gives the same tokens.
  std::int32_t slot = -1;
};

// Rows of one vocabulary, up to `max_rows` at a time. Any number of threads may call run(); they take turns.
class REPROFUSE_API Sampler {
 public:
  Sampler(const Context& context, std::int64_t vocabulary, std::int64_t max_rows);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // logits [inputs.size(), vocabulary], on the context's device. Waits for `stream`.
  // Throws kNonFinite with the row and the id where a logit, after the penalty, is not finite.
  std::vector<SampleResult> run(ConstMatrix logits, std::span<const SampleInput> inputs, void* stream = nullptr) const;
  // The same, but such a row says so in its result (`not_finite`) and fails no other.
  std::vector<SampleResult> run_each(ConstMatrix logits, std::span<const SampleInput> inputs,
                                     void* stream = nullptr) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One row of logits, on the context's device as those of a Sampler, of which each call makes one: for a program that
// chooses few tokens.
REPROFUSE_API std::int32_t sample(const Context& context, std::span<const float> logits, const SamplingParams& params,
                                  std::span<const std::int32_t> history, std::uint64_t position);

}  // namespace reprofuse
