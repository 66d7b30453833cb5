// A pass over the model, as the engine plans it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.hpp"

namespace reprofuse::engine {

struct Engine::PassRows {
  std::int64_t rows;
  std::int64_t logit_rows;
};

// The next tokens of one job in a pass, and the results.
struct Engine::JobChunk {
  Job* job;
  std::int64_t begin;                // tokens of the job that were in the cache before
  std::vector<std::int32_t> tokens;  // the next of the job, then guesses at what follows
  std::int64_t guesses = 0;
  model::Logits logits = model::Logits::kNone;
  std::vector<SampleResult> sampled;  // per row of logits
  std::vector<float> logit_values;    // the rows themselves, for a digest of the kind chain-1
  bool was_cut = false;               // in this pass

  // Leaves the token out with which the pass failed, and those after it; all of them where that was not enough before.
  void cut_before(std::int64_t token) {
    job->suspect = begin + token;
    tokens.resize(static_cast<std::size_t>(was_cut ? 0 : token));
    if (logits == model::Logits::kLast || tokens.empty()) logits = model::Logits::kNone;
    was_cut = true;
  }
  // Leaves all of it to a later pass.
  void put_off() {
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

// Prompt lookup: up to `count` tokens that followed the last earlier place where the text had its last three, or else
// two, tokens. A guess costs a row of a pass and moves no bit: the row that checks it has the logits of a step of its
// own.
std::span<const std::int32_t> guess_next(std::span<const std::int32_t> text, std::int64_t count);

}  // namespace reprofuse::engine
