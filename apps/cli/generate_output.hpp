// What `reprofuse generate` prints: the answer on stdout as it comes, notes and speed on stderr, or one JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_files.hpp"
#include "model/generate.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::cli {

// Writes text as it becomes certain; token ids when there is no tokenizer.
class AnswerWriter {
 public:
  AnswerWriter(const engine::TextFormat& format, bool to_stdout);

  bool push(std::int32_t token);  // false: nobody is left to read it
  void finish();
  const std::optional<std::string>& text() const { return text_; }  // none: no tokenizer

 private:
  void write(const std::string& piece) const;

  bool to_stdout_;
  bool first_ = true;
  std::optional<text::StreamDetokenizer> detokenizer_;
  std::optional<std::string> text_;
};

struct GenerateOutput {
  const Context& context;
  const engine::ModelFiles& files;
  const model::GenerateOptions& options;
  const std::vector<std::int32_t>& prompt;
  std::optional<text::DateTime> date;  // where the template can ask for it

  void print_notes() const;                                   // stderr, before the answer
  void print_end(const model::GenerateResult& result) const;  // the digest, and the speed on stderr
  // Everything that a replay needs.
  void print_json(const std::optional<std::string>& text, const model::GenerateResult& result) const;
};

}  // namespace reprofuse::cli
