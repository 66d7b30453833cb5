// The oracle that engines are held against: one answer to one prompt by the plainest loop, prefill in chunks and then a
// token at a time. Of the engine's own code it uses nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/runner.hpp"
#include "reprofuse/sampler.hpp"

namespace reprofuse::model {

struct PlainOptions {
  std::int64_t max_tokens = 256;
  SamplingParams sampling = {};                // temperature 0: greedy
  std::vector<std::int32_t> stop_tokens = {};  // any of them ends the answer and is not part of it
  // How it is computed. No bit may depend on these.
  std::int64_t prefill_chunk = 512;
  std::int32_t page_size = kDefaultPageSize;
};

struct PlainAnswer {
  std::vector<std::int32_t> tokens;  // without the stop token
  bool stopped = false;              // by a stop token, not by max_tokens
  std::string digest;                // of the logits of every step, the one that chose the stop token included
  std::string chain_digest;          // the same, of the kind chain-1
};

PlainAnswer plain_generate(const Model& model, std::span<const std::int32_t> prompt, const PlainOptions& options);

}  // namespace reprofuse::model
