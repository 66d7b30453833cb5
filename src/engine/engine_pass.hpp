// A pass over the model, as the engine plans it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"

namespace reprofuse::engine {

// Of a pass: the tokens of one job, and what came of them.
struct Engine::Share {
  Job* job;
  std::int64_t begin;                // how much of the text was in the cache before
  std::vector<std::int32_t> tokens;  // the next of the text, then guesses at what follows it
  std::int64_t guesses = 0;
  model::Logits logits = model::Logits::kNone;
  std::vector<SampleResult> sampled;  // per row of logits
  std::vector<float> logit_values;    // the rows themselves, when a digest was asked for

  void drop_tokens() {
    tokens.clear();
    guesses = 0;
    logits = model::Logits::kNone;
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t logit_rows() const {
    if (logits == model::Logits::kNone) return 0;
    return logits == model::Logits::kAll ? rows() : 1;
  }
  // The position of the token that row i of the logits is about.
  std::int64_t predicted_position(std::int64_t i) const { return begin + rows() - logit_rows() + i + 1; }
};

}  // namespace reprofuse::engine
