// Tokens to text while they come.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "reprofuse/tokenizer.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {

// Gives the text of tokens as soon as it is certain, and never part of a character: what push() and flush() return,
// joined, is Tokenizer::decode() of all the tokens, U+FFFD for U+FFFD.
class StreamDetokenizer {
 public:
  explicit StreamDetokenizer(Tokenizer tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

  // The text that this token completes: well-formed UTF-8, perhaps empty. Models pad their vocabularies, so an id may
  // have no token: it stands for no text.
  std::string push(std::int32_t id) {
    std::string text;
    if (!tokenizer_.has_token(id)) return text;
    if (tokenizer_.is_special(id) && skip_special_tokens_) return text;
    pending_ += tokenizer_.token_bytes(id);
    pending_.erase(0, append_utf8_replacing(pending_, text));
    return text;
  }

  // U+FFFD when the last character was never finished, else nothing. The next push() starts a new text.
  std::string flush() { return utf8_replacing(std::exchange(pending_, {})); }

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;  // the start of a character: at most three bytes
};

}  // namespace reprofuse::text
