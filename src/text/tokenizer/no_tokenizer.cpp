// The tokenizer of a build without PCRE2 and utf8proc.
#include "base/check.hpp"
#include "reprofuse/tokenizer.hpp"
#include "text/tokenizer/unicode.hpp"

namespace reprofuse {

std::string text::unicode_versions() {
  return "none";
}

namespace {

[[noreturn]] void missing() {
  fail(ErrorCode::kUnsupported, "this build has no tokenizer (a cross build without PCRE2)");
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view, const std::string&) {
  missing();
}
Tokenizer Tokenizer::load(const std::filesystem::path&) {
  missing();
}
std::vector<std::int32_t> Tokenizer::encode(std::string_view, bool) const {
  missing();
}
std::optional<std::vector<std::int32_t>> Tokenizer::encode_within(std::string_view, const EncodeOptions&) const {
  missing();
}
std::vector<TextSpan> Tokenizer::added_tokens_in(std::string_view) const {
  missing();
}
std::string Tokenizer::decode(std::span<const std::int32_t>, bool) const {
  missing();
}
bool Tokenizer::has_token(std::int32_t) const {
  missing();
}
std::size_t Tokenizer::vocab_size() const {
  missing();
}
std::optional<std::int32_t> Tokenizer::token_id(std::string_view) const {
  missing();
}
const std::string& Tokenizer::token_bytes(std::int32_t) const {
  missing();
}
bool Tokenizer::is_special(std::int32_t) const {
  missing();
}
bool Tokenizer::has_template() const {
  missing();
}

}  // namespace reprofuse
