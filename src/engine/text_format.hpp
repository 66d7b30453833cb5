// The text side of a checkpoint folder: what makes tokens of prompts and chats, and names of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/tokenizer.hpp"
#include "text/chat_template.hpp"
#include "text/jinja/markers.hpp"

namespace reprofuse::engine {

// What becomes of the spelling of a special token in what a user wrote: in the contents of a chat, or in a prompt. More
// exactly, of any added token that is more than white space.
enum class SpecialTokens {
  kAsTokens,  // the token, as transformers has it: a message can forge the turns of a chat
  kPlain,     // text like any other
};

// "as-tokens" and "plain".
std::string_view to_string(SpecialTokens special_tokens);
std::optional<SpecialTokens> special_tokens_from(std::string_view name);

// The text side of a folder: tokenizer.json, tokenizer_config.json and the chat template. A folder whose tokenizer or
// template is missing or not supported still takes and gives token ids; asking for what is not there fails with the
// reason.
class TextFormat {
 public:
  explicit TextFormat(const std::string& folder);

  bool has_tokenizer() const { return tokenizer_.has_value(); }
  bool has_chat_template() const { return chat_template_.has_value(); }
  const std::string& why_no_tokenizer() const { return why_no_tokenizer_; }
  const std::string& why_no_chat_template() const { return why_no_chat_template_; }
  const Tokenizer& tokenizer() const;
  // A token as people read it: its text, "bytes:\xe2" where that is none, or "token_id:7" without a tokenizer.
  std::string token_name(std::int32_t id) const;
  // SHA-256, in hex, of the chat template's source, also of one that is not supported; none: there is none.
  const std::optional<std::string>& template_digest() const { return template_digest_; }

  // A prompt as it is, with the special tokens that the folder's files put around a text. encode_text() adds them if
  // options.add_special_tokens; none: more tokens than options.max_tokens.
  std::vector<std::int32_t> encode_prompt(std::string_view prompt) const;
  std::optional<std::vector<std::int32_t>> encode_text(std::string_view text, const EncodeOptions& options) const;
  // kPlain makes all of the text plain, whatever options.plain says.
  std::optional<std::vector<std::int32_t>> encode_text(std::string_view text, SpecialTokens in_text,
                                                       const EncodeOptions& options) const;
  // Messages through the chat template. Its special tokens are given already; `given` has the rest. Plain contents fail
  // where the template does with them, or with its own tokens, what cannot be followed; they never become tokens.
  std::string render_chat(const nlohmann::ordered_json& messages, const text::ChatVariables& given = {}) const;
  std::vector<std::int32_t> encode_chat(const nlohmann::ordered_json& messages,
                                        const text::ChatVariables& given = {}) const;
  std::optional<std::vector<std::int32_t>> encode_chat(const nlohmann::ordered_json& messages,
                                                       const text::ChatVariables& given, SpecialTokens in_content,
                                                       const EncodeOptions& options) const;
  // Whether the template can ask for the date, or for tools, at all; and for what else that
  // ChatVariables::variables gives.
  bool template_uses_date() const { return template_uses_date_; }
  const std::set<std::string>& template_variables() const { return template_variables_; }
  // What the template reads and is given anyway: messages, tools, add_generation_prompt and special tokens.
  const std::set<std::string>& given_variables() const { return given_variables_; }

 private:
  void load_tokenizer(const std::string& folder);
  void load_template(const std::string& folder);
  void mark_template(const std::string& source, const std::string& folder);
  std::optional<std::vector<std::int32_t>> encode_plain_chat(const nlohmann::ordered_json& messages,
                                                             const text::ChatVariables& given,
                                                             const EncodeOptions& options) const;
  text::jinja::Markers::Unmarked render_marked(const nlohmann::ordered_json& messages,
                                               const text::ChatVariables& given) const;
  void copy_without_special_tokens(const nlohmann::ordered_json& value, nlohmann::ordered_json& result) const;

  std::string why_no_tokenizer_;
  std::string why_no_chat_template_;
  bool template_uses_date_ = false;
  std::set<std::string> template_variables_, given_variables_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::int32_t> before_prompt_;  // besides what the tokenizer itself puts there,
  std::vector<std::int32_t> after_prompt_;   // and there
  std::optional<text::ChatTemplate> chat_template_;
  std::optional<std::string> template_digest_;
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
  // The same with markers for special tokens, for plain contents.
  std::string why_no_marked_template_;
  std::shared_ptr<const text::jinja::Markers> markers_;
  std::optional<text::ChatTemplate> marked_template_;
  nlohmann::ordered_json marked_special_tokens_ = nlohmann::ordered_json::object();
};

}  // namespace reprofuse::engine
