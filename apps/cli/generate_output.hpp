// What `reprofuse generate` prints: the answer on stdout as it comes, notes and speed on stderr, or one JSON object.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_files.hpp"
#include "engine/request.hpp"

namespace reprofuse::cli {

// An answer, put together from the engine's updates. When no end comes, it was cancelled.
class Answer {
 public:
  // logprobs: how many of the likeliest tokens are shown with each; -1: no log-probability is.
  explicit Answer(bool has_text, int logprobs = -1);

  void add(const engine::Update& update);

  const std::vector<std::int32_t>& tokens() const { return tokens_; }                  // without the stop token
  const std::optional<std::string>& text() const { return text_; }                     // none: no tokenizer
  const std::vector<engine::Likelihood>& likelihoods() const { return likelihoods_; }  // of each token, if shown
  int logprobs() const { return logprobs_; }
  const engine::End& end() const { return end_; }
  std::int64_t steps() const;      // rows of logits that a token was chosen from, a stop token included
  double prefill_seconds() const;  // from the start to the first update, with the first token
  double decode_seconds() const;   // from there to the last

 private:
  using Time = std::chrono::steady_clock::time_point;

  std::vector<std::int32_t> tokens_;
  std::optional<std::string> text_;
  int logprobs_;
  std::vector<engine::Likelihood> likelihoods_;
  engine::End end_;
  Time start_ = std::chrono::steady_clock::now();
  std::optional<Time> first_update_;
  Time last_update_;
};

// Writes text to stdout as it becomes certain; token ids when there is no tokenizer.
class AnswerWriter {
 public:
  explicit AnswerWriter(bool has_text) : has_text_(has_text) {}

  bool write(const engine::Update& update);  // false: nobody is left to read it
  void finish() const;

 private:
  bool has_text_;
  bool is_first_ = true;
};

struct GenerateOutput {
  const Context& context;
  std::string default_note;  // of its numerics
  const engine::ModelFiles& files;
  std::optional<text::DateTime> date;  // where the template can ask for it
  std::string model_digest = {};       // where a digest is told, too

  void print_numerics() const;                             // stderr, the first line
  void print_notes(const engine::Request& request) const;  // that line, and more of them before the answer
  // Log-probabilities and the digest, if there are any, and the speed on stderr.
  void print_end(const engine::Request& request, const Answer& answer) const;
  void print_json(const engine::Request& request, const Answer& answer) const;
  // Everything that a replay needs.
  nlohmann::ordered_json to_json(const engine::Request& request, const Answer& answer) const;
};

std::string on_one_line(const nlohmann::ordered_json& value);  // with U+FFFD for what is no UTF-8

}  // namespace reprofuse::cli
