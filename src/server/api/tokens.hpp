// Tokens and their log-probabilities as replies show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.hpp"
#include "server/api/json.hpp"
#include "server/api/models.hpp"
#include "text/tokenizer/detokenizer.hpp"

namespace reprofuse::server {

class TokenNames {
 public:
  TokenNames(const ServedFacts& facts, bool as_ids) : format_(facts.files->text()), as_ids_(as_ids) {}

  // Its text; "bytes:\xe2\x80" when that is no whole characters, so that different tokens have different names;
  // "token_id:7" when it has no text, or as asked.
  std::string name(std::int32_t id) const;
  // [226, 128], or null when it has no text.
  void write_bytes(JsonWriter& json, std::int32_t id) const;

 private:
  bool has_text(std::int32_t id) const;

  const engine::TextFormat& format_;
  bool as_ids_;
};

// Where in the text a token begins, counted in characters.
class TextPosition {
 public:
  TextPosition(const ServedFacts& facts, bool skip_special_tokens, std::size_t start);
  std::size_t next(std::int32_t id);  // the position of this token; the one after it begins where it ends

 private:
  std::optional<text::StreamDetokenizer> detokenizer_;
  std::size_t position_;
};

std::size_t count_characters(std::string_view utf8);

// Where in an echoed prompt each of its tokens begins. A special token has a place there if the text spells it.
class EchoPosition {
 public:
  EchoPosition(const ServedFacts& facts, std::string_view text);
  std::size_t next(std::int32_t id);

 private:
  const engine::TextFormat& format_;
  std::optional<text::StreamDetokenizer> detokenizer_;
  std::string_view rest_;  // of the text
  std::size_t position_ = 0;
};

// Every bit of it, as a number that JSON has: no likelihood at all is -9999, as OpenAI and vLLM have it.
double shown_logprob(float logprob);

// An entry of a chat's logprobs.content, with the `max_top` likeliest tokens.
void write_chat_logprob(JsonWriter& json, std::int32_t id, const engine::Likelihood& likelihood, int max_top,
                        const TokenNames& names);

struct PlacedToken {
  std::int32_t id;
  const std::optional<engine::Likelihood>& likelihood;
  std::size_t offset;  // in the text, counted in characters
};

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of a completion. A token is among its top_logprobs even
// if it is not among the `max_top` likeliest.
void write_completion_logprobs(JsonWriter& json, const std::vector<PlacedToken>& tokens, int max_top,
                               const TokenNames& names);

// The field "prompt_logprobs" as vLLM has it: null, then {"7": {"logprob", "rank", "decoded_token"}} for each token and
// the likeliest in its place.
void write_prompt_logprobs(JsonWriter& json, const std::vector<engine::PromptToken>& prompt, int max_top,
                           const TokenNames& names);

}  // namespace reprofuse::server
