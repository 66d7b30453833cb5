// A checkpoint folder ready to answer: weights on a device, tokenizer, chat template, and the tokens that end an
// answer.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "model/checkpoint_source.hpp"
#include "model/model.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace reprofuse::engine {

// The text side of a folder. A folder without tokenizer.json, or a build without a tokenizer, takes and gives token
// ids.
class TextFormat {
 public:
  explicit TextFormat(const std::string& folder);

  bool has_tokenizer() const { return tokenizer_.has_value(); }
  bool has_chat_template() const { return chat_template_.has_value(); }
  const text::Tokenizer& tokenizer() const;  // throws, with the reason, when there is none

  // A prompt as it is, with the special tokens that the tokenizer puts around a text.
  std::vector<std::int32_t> encode_prompt(std::string_view prompt) const;
  // Messages through the chat template. The date is what the template sees as today.
  std::string render_chat(const nlohmann::ordered_json& messages, const text::DateTime& date) const;
  std::vector<std::int32_t> encode_chat(const nlohmann::ordered_json& messages, const text::DateTime& date) const;

 private:
  std::string folder_;
  std::string why_no_tokenizer_;
  std::optional<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
};

class LanguageModel {
 public:
  // max_positions: the longest text to serve; 0: as long as the model declares.
  LanguageModel(const Context& context, const std::string& folder, std::int64_t max_positions,
                const model::LoadProgress& progress = {});

  const TextFormat& text() const { return text_; }
  const model::Model& model() const { return *model_; }
  const checkpoint::Checkpoint& checkpoint() const { return source_->checkpoint(); }
  const std::vector<std::int32_t>& stop_tokens() const { return stop_tokens_; }

 private:
  TextFormat text_;
  std::shared_ptr<const model::CheckpointSource> source_;
  std::unique_ptr<model::Model> model_;
  std::vector<std::int32_t> stop_tokens_;
};

}  // namespace reprofuse::engine
