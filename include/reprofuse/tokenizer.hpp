// Text to token ids and back, as the tokenizer.json of a checkpoint says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprofuse/export.hpp"

namespace reprofuse {

namespace text {
struct TokenizerParts;
}

// A part of a text, in bytes.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct EncodeOptions {
  bool add_special_tokens = false;
  std::size_t max_tokens = std::numeric_limits<std::size_t>::max();
  std::function<void()> poll = {};  // called now and then: what it throws ends encoding, and comes out of it
  // Parts in which no added token is found, ascending and apart: what a user wrote, say, so that it cannot forge a turn
  // of a chat. Added tokens of nothing but white space are found there, too; they are how a text is written.
  std::span<const TextSpan> plain = {};
};

// Whatever is called an error here is kInvalidArgument.
//
// A byte-level BPE tokenizer: that of Llama 3, Qwen 2 and 3, DeepSeek-R1-Distill, GPT-2 and their like. It gives the
// ids that Hugging Face's tokenizers give. A setting in tokenizer.json that is not understood is an error that names
// file, key and value; only "truncation" and "padding" are passed over, as transformers passes over them.
//
// Immutable: copies are cheap and share one vocabulary, and any number of threads may use one.
//
// A cross build has no tokenizer: from_json() and load() fail with ErrorCode::kUnsupported.
class REPROFUSE_API Tokenizer {
 public:
  // name is how errors call the document: its path.
  static Tokenizer from_json(std::string_view json, const std::string& name);
  static Tokenizer load(const std::filesystem::path& tokenizer_json);

  // Added tokens are found in the text first, special ones included; then the text is normalized, cut into pieces, and
  // each piece is encoded. With add_special_tokens the tokens of "post_processor" are put around it, such as
  // <|begin_of_text|>. Text that is not well-formed UTF-8 is an error that names the first bad byte. Time grows almost
  // linearly with the text, even when all of it is one word.
  std::vector<std::int32_t> encode(std::string_view utf8, bool add_special_tokens) const;

  // The same, or nothing when there are more than max_tokens: then it stops as soon as that is certain, in memory for
  // about so many. Fails where plain text cannot be told from an added token.
  std::optional<std::vector<std::int32_t>> encode_within(std::string_view utf8, const EncodeOptions& options) const;

  // Where a text spells added tokens that are more than white space, ascending: what EncodeOptions::plain would keep
  // from being tokens.
  std::vector<TextSpan> added_tokens_in(std::string_view utf8) const;

  // Well-formed UTF-8: bytes that make no character become U+FFFD, one for each maximal subpart. An id that the
  // vocabulary lacks is an error. For a text without added tokens, decode(encode(text)) is the normalized text.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  // One more than the largest id: how many rows an embedding needs at least. There may be ids below it without a token.
  std::size_t vocab_size() const;

  bool has_token(std::int32_t id) const;

  // By the spelling of tokenizer.json: "<|eot_id|>" for an added token, "\u0120the" for " the".
  std::optional<std::int32_t> token_id(std::string_view spelling) const;

  // What the token stands for: any bytes, perhaps part of a character. An id that the vocabulary lacks is an error.
  const std::string& token_bytes(std::int32_t id) const;

  // Whether decoding with skip_special_tokens leaves it out. An id that the vocabulary lacks is an error.
  bool is_special(std::int32_t id) const;

  // Whether "post_processor" has a template. Without one, encode() puts nothing around a text.
  bool has_template() const;

 private:
  explicit Tokenizer(std::shared_ptr<const text::TokenizerParts> parts);

  std::shared_ptr<const text::TokenizerParts> parts_;
};

// Tokens to text while they come, never part of a character: what push() and flush() return, joined, is
// Tokenizer::decode() of all the tokens. For one thread at a time.
class REPROFUSE_API StreamDetokenizer {
 public:
  explicit StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  ~StreamDetokenizer();
  StreamDetokenizer(StreamDetokenizer&&) noexcept;
  StreamDetokenizer& operator=(StreamDetokenizer&&) noexcept;

  std::string push(std::int32_t id);  // the text that this token completes, perhaps empty
  std::string flush();                // what was held back; the next push() starts a new text

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprofuse
