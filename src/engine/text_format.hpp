// The text side of a checkpoint folder: tokenizer.json, tokenizer_config.json and the chat template.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/tokenizer.hpp"
#include "text/chat_template.hpp"

namespace reprofuse::engine {

// What a chat may say beside its messages.
struct ChatExtras {
  bool add_generation_prompt = true;
  nlohmann::ordered_json tools;                                         // null: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // others that the template reads
};

// A folder whose tokenizer or template is missing or not supported still takes and gives token ids; asking for what is
// not there fails with the reason.
class TextFormat {
 public:
  explicit TextFormat(const std::string& folder);

  bool has_tokenizer() const { return tokenizer_.has_value(); }
  bool has_chat_template() const { return chat_template_.has_value(); }
  const std::string& why_no_tokenizer() const { return why_no_tokenizer_; }
  const std::string& why_no_chat_template() const { return why_no_chat_template_; }
  const Tokenizer& tokenizer() const;
  // SHA-256, in hex, of the chat template's source, also of one that is not supported; none: there is none.
  const std::optional<std::string>& template_digest() const { return template_digest_; }

  // A prompt as it is, with the special tokens that the folder's files put around a text.
  std::vector<std::int32_t> encode_prompt(std::string_view prompt) const;
  // Messages through the chat template. The date is what the template sees as today.
  std::string render_chat(const nlohmann::ordered_json& messages, const text::DateTime& date,
                          const ChatExtras& extras = {}) const;
  std::vector<std::int32_t> encode_chat(const nlohmann::ordered_json& messages, const text::DateTime& date,
                                        const ChatExtras& extras = {}) const;
  // Whether the template can ask for the date, or for tools, at all; and for what else that ChatExtras::variables
  // gives.
  bool template_uses_date() const { return template_uses_date_; }
  bool template_uses_tools() const { return template_uses_tools_; }
  const std::set<std::string>& template_variables() const { return template_variables_; }
  // What the template reads and is given anyway: messages, tools, add_generation_prompt and special tokens.
  const std::set<std::string>& given_variables() const { return given_variables_; }

 private:
  void load_tokenizer(const std::string& folder);
  void load_template(const std::string& folder);

  std::string why_no_tokenizer_;
  std::string why_no_chat_template_;
  bool template_uses_date_ = false;
  bool template_uses_tools_ = false;
  std::set<std::string> template_variables_, given_variables_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::int32_t> before_prompt_;  // besides what the tokenizer itself puts there,
  std::vector<std::int32_t> after_prompt_;   // and there
  std::optional<text::ChatTemplate> chat_template_;
  std::optional<std::string> template_digest_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
};

}  // namespace reprofuse::engine
