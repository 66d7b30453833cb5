#include "text/tokenizer/detokenizer.hpp"

#include <utility>

#include "text/tokenizer/unicode.hpp"

namespace reprofuse::text {

std::string StreamDetokenizer::push(std::int32_t id) {
  std::string text;
  if (!tokenizer_.has_token(id)) return text;
  if (tokenizer_.is_special(id) && skip_special_tokens_) return text;
  pending_ += tokenizer_.token_bytes(id);
  pending_.erase(0, append_utf8_replacing(pending_, text));
  return text;
}

std::string StreamDetokenizer::flush() {
  return utf8_replacing(std::exchange(pending_, {}));
}

}  // namespace reprofuse::text
