// What `reprofuse generate` prints: the answer on stdout as it comes, notes and speed on stderr, or one JSON object.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_files.hpp"
#include "engine/request.hpp"

namespace reprofuse::cli {

// An answer, put together from the engine's updates. When no end comes, it was cancelled.
class Answer {
 public:
  explicit Answer(bool has_text);

  void add(const engine::Update& update);

  const std::vector<std::int32_t>& tokens() const { return tokens_; }  // without the stop token
  const std::optional<std::string>& text() const { return text_; }     // none: no tokenizer
  const engine::End& end() const { return end_; }
  std::int64_t steps() const;      // rows of logits that a token was chosen from, a stop token included
  double prefill_seconds() const;  // from the start to the first update, with the first token
  double decode_seconds() const;   // from there to the last

 private:
  using Time = std::chrono::steady_clock::time_point;

  std::vector<std::int32_t> tokens_;
  std::optional<std::string> text_;
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
  const engine::ModelFiles& files;
  const engine::Request& request;
  std::optional<text::DateTime> date;  // where the template can ask for it

  void print_notes() const;                     // stderr, before the answer
  void print_end(const Answer& answer) const;   // the digest, and the speed on stderr
  void print_json(const Answer& answer) const;  // everything that a replay needs
};

}  // namespace reprofuse::cli
